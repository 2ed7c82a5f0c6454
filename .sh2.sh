build/mlxcel-server -m peer/lfm2 --port 18080 -np 2 -c 16384 -t 2 > peer/lfm2.log 2>&1 & P=$!
sleep 2
build/bench_server --shared 3000 -r 3 http://127.0.0.1:18080
kill $P; wait
