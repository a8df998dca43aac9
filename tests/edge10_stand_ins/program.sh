#!/usr/bin/env bash
# Fake of a host program: records its words, and its input if that is a password.
{
  printf '%s' "${0##*/}"
  printf '\t%s' "$@"
  printf '\tCUDA_VISIBLE_DEVICES=%s\n' "${CUDA_VISIBLE_DEVICES:-}"
} >> "$EDGE10_PROGRAMS"
if [[ "$*" == *--password-stdin* ]]; then
  printf 'read\t%s\n' "$(cat)" >> "$EDGE10_PROGRAMS"
fi
