"""Each native thread prints its index and the CPUs it may run on."""

import os
import threading

created = threading.Barrier(4)
printing = threading.Lock()


def run(index):
    created.wait()
    with printing:
        print(index, *sorted(os.sched_getaffinity(0)))


threads = [threading.Thread(target=run, args=(index,)) for index in range(1, 4)]
for thread in threads:
    thread.start()
run(0)
for thread in threads:
    thread.join()
