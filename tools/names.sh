#!/usr/bin/env bash
# Refuses names that say nothing where a grep, a stack trace or rustdoc shows them without their module: of constants, types and modules.
# CONTRIBUTING.md says how to name; a word is added here once the tree is free of it.
set -u
cd "$(dirname "$0")/.." || exit 1
constants='\bconst (MOST|AGAIN|FEW|TOLD|PATIENCE|SELDOM)\b'
types='\b(struct|enum|trait) (Scribe|Herald|Teller|Courier|Keeper|Sight|Alone|MaybeTime)\b'
modules='\bmod (scribe|herald|teller|courier|hurry|stood|alone|torn|left|home|maybe|contest|suspects|debts|doubt|rivals|felt|distrust|belief|apart|elsewhere|loose|births|keeper|sight|by_hand|heirs|beside)\b'
if git grep -nE "$constants|$types|$modules" -- 'crates/*.rs' ':!crates/load' ':!crates/lab'; then
    echo "names.sh: the names above say too little where they are seen alone (CONTRIBUTING.md, Code)" >&2
    exit 1
fi
