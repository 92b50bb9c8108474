// SPDX-License-Identifier: Apache-2.0

package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/conversion"
)

// Convert_Pointer_resource_Quantity_To_resource_Quantity takes nil as 0.
func Convert_Pointer_resource_Quantity_To_resource_Quantity(in **resource.Quantity, out *resource.Quantity, _ conversion.Scope) error {
	if *in == nil {
		*out = resource.Quantity{}
		return nil
	}
	*out = (*in).DeepCopy()
	return nil
}

// Convert_resource_Quantity_To_Pointer_resource_Quantity always sets a pointer.
func Convert_resource_Quantity_To_Pointer_resource_Quantity(in *resource.Quantity, out **resource.Quantity, _ conversion.Scope) error {
	q := in.DeepCopy()
	*out = &q
	return nil
}
