from tyllm.build_util import build_and_compile_llm

print "compiling"
build_and_compile_llm("Qwen3-4B-AWQ", dev_count=1)
