#!/bin/bash
# Inside run.sh: sends BYTES from host 0 to host 1 and prints the milliseconds until the answer.
receive='
import socket
server = socket.create_server(("0.0.0.0", 5001))
peer, _ = server.accept()
left = int(__import__("sys").argv[1])
while left > 0:
    left -= len(peer.recv(1 << 20))
peer.sendall(b"!")'
send='
import socket, sys, time
for _ in range(600):
    try:
        peer = socket.create_connection(("10.78.0.11", 5001))
        break
    except OSError:
        time.sleep(0.05)
start = time.perf_counter()
peer.sendall(bytes(int(sys.argv[1])))
peer.recv(1)
print("%.1f" % ((time.perf_counter() - start) * 1e3))'
ip netns exec reprise-host1 python3 -c "$receive" "$1" &
ip netns exec reprise-host0 python3 -c "$send" "$1"
status=$?
wait
exit $status
