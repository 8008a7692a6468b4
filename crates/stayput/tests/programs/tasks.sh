#!/bin/sh
# Stands in for a program that tells its tasks. Class S does; W comes to a wrong result, A tells nothing, B dies.
echo "compiler: testcc 1.2"
echo "threads: $OMP_NUM_THREADS"
echo "seconds: 0.000011"
case $1 in
W) echo "verification: failed"; exit 1 ;;
B) kill -9 $$ ;;
esac
if [ "$1" = S ] && [ "$OMP_NUM_THREADS" = 1 ]; then
    cat > "$STAYPUT_TASKS" <<'END'
{"name": "rows", "rounds": 2, "order": "random", "passes": 2, "parts": [{"what": "row", "bytes": 640, "again": true, "kept": 0.5}], "us": [1, 2, 3, 4]}
{"name": "sum", "rounds": 2, "order": "random", "passes": 1, "parts": [{"what": "sums", "bytes": 64, "again": false, "kept": 0}], "us": [0.4, 0.6]}
END
fi
echo "verification: successful"
