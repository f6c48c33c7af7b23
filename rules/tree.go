package rules

// Tree is a value in a YAML file of another program, with its line: a text, a list or
// a map. It is read only.
type Tree struct {
	Line int
	// Text is what a value that is no list and no map says; "" is also nothing.
	Text string
	// List are the items of a list.
	List []*Tree
	// Names are those of a map, in the order of the file, and Map its values.
	Names []string
	Map   map[string]*Tree
}

// Get returns what is found in maps under one name after the other; nil where there
// is nothing. A nil Tree has nothing.
func (t *Tree) Get(names ...string) *Tree {
	for _, name := range names {
		if t == nil {
			return nil
		}
		t = t.Map[name]
	}
	return t
}

// ReadTree reads a YAML file that is not ours, within the bounds of one that is: a $
// means nothing in it. The error is an ErrorList.
func ReadTree(name string, data []byte) (*Tree, error) {
	s, text := readSource(Outside{}, name, data)
	s.foreign = true
	if len(s.errs) == 0 {
		if root := decode(s, text); root != nil && len(s.errs) == 0 {
			return root.tree(), nil
		}
	}
	return nil, s.errors()
}

func (n *node) tree() *Tree {
	t := &Tree{Line: n.line()}
	switch n.shape {
	case scalar:
		if n.word != wordNull {
			t.Text = n.text
		}
	case sequence:
		for _, item := range n.items {
			t.List = append(t.List, item.tree())
		}
	case mapping:
		t.Map = make(map[string]*Tree, len(n.keys))
		for i, key := range n.keys {
			t.Names = append(t.Names, key.text)
			t.Map[key.text] = n.items[i].tree()
		}
	}
	return t
}
