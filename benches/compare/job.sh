# One workload of the stops, or of an owner that dies. Every process of it writes itself into the ledger before it does anything else, and none
# of them lives for longer than five minutes. Two words are put in when it is written out: which workload, whose ledger.
workload='@workload@'
ledger=${COMPARE_LEDGER:-@ledger@}
export ledger

# A role, the pid, and the start in ticks since the boot.
say() {
    read -r line <"/proc/$BASHPID/stat"
    set -- "$1" ${line##*) }
    echo "$1 $BASHPID ${21}" >>"$ledger"
}
nap() { say "$1"; exec sleep 300; }
export -f say nap

case $workload in
'plain child')
    nap child & say leader; wait ;;
'deaf to TERM')
    trap '' TERM; nap child & say leader; wait ;;
'deaf to all')
    trap '' HUP TERM; nap child & say leader; wait ;;
'child in its own group')
    set -m; nap child & set +m; say leader; wait ;;
'setsid daemon')
    setsid bash -c 'nap child' & say leader; wait ;;
'double fork')
    (setsid bash -c 'nap child' &); nap leader ;;
'leader gone')
    trap '' HUP; nap child & say leader; exit ;;
'forks on TERM')
    trap 'nap born & exit' TERM; nap child & say leader; wait ;;
esac
