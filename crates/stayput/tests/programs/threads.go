// Keeps several operating-system threads busy at once.
package main

import (
	"runtime"
	"sync"
	"time"
)

func main() {
	var done sync.WaitGroup
	for i := 0; i < 4; i++ {
		done.Add(1)
		go func() {
			defer done.Done()
			runtime.LockOSThread()
			time.Sleep(50 * time.Millisecond)
		}()
	}
	done.Wait()
}
