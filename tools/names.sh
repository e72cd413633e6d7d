#!/usr/bin/env bash
# Refuses names that say nothing where a grep, a stack trace or rustdoc shows them without their module: of constants, types and modules.
# Refuses words that docs/glossary.md replaces, in comments of the crates that are free of them.
# CONTRIBUTING.md says how to name; a word, or a crate, is added here once the tree is free of it.
set -u
cd "$(dirname "$0")/.." || exit 1
failed=0
refuse() { # what is wrong, pattern, paths …
    local why=$1 pattern=$2
    shift 2
    if git grep -nE "$pattern" -- "$@"; then
        echo "names.sh: $why" >&2
        failed=1
    fi
}

constants='\bconst (MOST|AGAIN|FEW|TOLD|PATIENCE|SELDOM)\b'
types='\b(struct|enum|trait) (Scribe|Herald|Teller|Courier|Keeper|Sight|Alone|MaybeTime|Hurry|Patience|Workshop|PutRight|Torn)\b'
modules='\bmod (scribe|herald|teller|courier|hurry|stood|alone|torn|left|home|maybe|contest|suspects|debts|doubt|rivals|felt|distrust|belief|apart|elsewhere|loose|births|keeper|sight|by_hand|heirs|beside)\b'
refuse "the names above say too little where they are seen alone (CONTRIBUTING.md, Code)" \
    "$constants|$types|$modules" 'crates/*.rs' ':!crates/load' ':!crates/lab'

# Crates whose names and comments have been gone through.
finished=()
for crate in bpf export facts files host latency load model readers record tables; do finished+=("crates/$crate/src/*.rs"); done

# At the top of a file a constant needs two words. Excepted are registries and tables with the name of what they hold,
# and the options of trace.dat, which are always written with their module (`options::DATE`).
refuse "a constant needs a name of two words or more, such as MAX_NAME_BYTES (CONTRIBUTING.md, Code)" \
    '^(pub(\([a-z ]+\))? )?(const|static) [A-Z]+:' "${finished[@]}" \
    ':!crates/readers/src/trace_dat/options.rs' ':!crates/readers/src/open.rs' ':!crates/facts/src/tables.rs' \
    ':!crates/facts/src/bugs.rs' ':!crates/facts/src/pollers.rs' ':!crates/facts/src/knob/mod.rs' ':!crates/tables/src/schema/mod.rs'
refuse "say MAX_… or MIN_… and of what" '^ *(pub(\([a-z ]+\))? )?(const|static) (MOST|LEAST|LONGEST|DEEPEST|FEWEST)_' "${finished[@]}"
refuse "use a word of docs/glossary.md instead" \
    '^ *//.*\b([Tt]old|[Ww]hom|[Ww]hoever|[Aa]new|[Ww]orth the name|passed over|[Mm]ended|[Tt]orn)\b' "${finished[@]}"

# Findings state claims (docs/decisions/0567): a format string with a blank in it is text.
refuse "make the text of findings in crates/diagnose/src/words" 'format!\($|format!\("[^"]* ' 'crates/diagnose/src/finding/*.rs'
exit $failed
