package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// startProfile profiles this process; what it returns ends that and writes NAME.cpu and NAME.allocs into the folder.
func startProfile(folder, name string) (stop func() error, err error) {
	if folder == "" {
		return func() error { return nil }, nil
	}
	cpu, err := os.Create(filepath.Join(folder, name+".cpu"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		allocs, err := os.Create(filepath.Join(folder, name+".allocs"))
		if err != nil {
			return errors.Join(err, cpu.Close())
		}
		return errors.Join(pprof.Lookup("allocs").WriteTo(allocs, 0), allocs.Close(), cpu.Close())
	}, nil
}
