package doctor

import "slices"

// Compares reports whether a type of resource is compared.
func Compares(kind string) bool { _, ok := kinds[kind]; return ok }

// Ignores reports whether a property of a type is left out of the comparison.
func Ignores(kind, property string) bool { return slices.Contains(kinds[kind].ignored, property) }

// Unlooked is the reason why a type of resource is not compared.
func Unlooked(kind string) string { return unlooked[kind] }
