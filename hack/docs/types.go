// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"
)

// structType is a struct of a Go file with what its comments say.
type structType struct {
	name, doc string
	fields    []fieldType
}

type fieldType struct {
	name     string // in JSON; empty if inlined
	typ, doc string
}

// structs reads the structs of a Go file in their order.
func structs(path string) ([]structType, error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	var out []structType
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			t := spec.(*ast.TypeSpec)
			s, ok := t.Type.(*ast.StructType)
			if !ok {
				continue
			}
			made := structType{name: t.Name.Name, doc: plain(general.Doc)}
			shared := "" // a comment over a field also speaks of those right below it
			for _, f := range s.Fields.List {
				if f.Doc != nil {
					shared = plain(f.Doc)
				}
				field := fieldType{typ: typeName(f.Type), doc: plain(f.Doc)}
				if f.Tag != nil {
					field.name, _, _ = strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
				}
				if field.doc == "" && len(f.Names) > 0 && mentions(shared, f.Names[0].Name) {
					field.doc = shared
				}
				made.fields = append(made.fields, field)
			}
			out = append(out, made)
		}
	}
	return out, nil
}

func mentions(doc, name string) bool {
	for _, word := range strings.FieldsFunc(doc, func(r rune) bool { return strings.ContainsRune(" .,;:", r) }) {
		if word == name {
			return true
		}
	}
	return false
}

// plain writes a comment as one paragraph, without markers for generators.
func plain(c *ast.CommentGroup) string {
	if c == nil {
		return ""
	}
	var lines []string
	for _, line := range strings.Split(c.Text(), "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "+") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

func typeName(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.StarExpr:
		return typeName(t.X)
	case *ast.ArrayType:
		return "list of " + typeName(t.Elt)
	case *ast.MapType:
		return "map of " + typeName(t.Value)
	case *ast.SelectorExpr:
		return map[string]string{"Time": "time", "Duration": "duration", "Quantity": "quantity", "LabelSelector": "LabelSelector"}[t.Sel.Name]
	case *ast.Ident:
		switch t.Name {
		case "bool":
			return "boolean"
		case "any":
			return "any value"
		case "int", "int32", "int64", "float64":
			return "number"
		}
		return t.Name
	}
	return fmt.Sprintf("%T", e)
}

// cell escapes what would end a cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
