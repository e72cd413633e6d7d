# Runs in the namespace: lays the model's directories over the machine's, then runs the scripts that it is given.
set -eu
export MODEL=$1
# /etc has what programs need to start.
cp -a /etc/alternatives /etc/ld.so.cache "$MODEL/root/etc/" 2>/dev/null || :
for directory in etc run sys proc; do
    mount --bind "$MODEL/root/$directory" "/$directory"
done
export PATH=$MODEL/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
echo ready
while read -r script; do
    status=0
    timeout 60 sh -eu "$script" >"$script.out" 2>&1 </dev/null || status=$?
    "$MODEL/bin/settle"
    echo "$status"
done
