package main

import "context"

func postgresSteps(context.Context, settings) ([]result, error) { return nil, nil }
func admissions(context.Context, settings) ([]result, error)    { return nil, nil }
func reads(context.Context, settings) ([]result, error)         { return nil, nil }
func relayLag(context.Context, settings) ([]result, error)      { return nil, nil }
