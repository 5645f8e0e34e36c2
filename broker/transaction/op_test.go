package transaction

import (
	"fmt"
	"strings"
	"testing"

	"peregrine/internal/message"
)

func readOp(body string) (list []message.QueueOffset) {
	eachOp([]byte(body), func(o message.QueueOffset) { list = append(list, o) })
	return list
}

func TestOpBodies(t *testing.T) {
	for body, want := range map[string]string{
		"": "[]", "0,": "[0]", "12,13,": "[12 13]", "7": "[7]", "7,8": "[7 8]", ",,": "[]", "a,1,-2,3x, 4,5,": "[1 5]",
		"9223372036854775807,9223372036854775808,": "[9223372036854775807]",
	} {
		if got := fmt.Sprint(readOp(body)); got != want {
			t.Errorf("%q: %s, want %s", body, got, want)
		}
	}
}

// A body is closed by the offset that reaches the size, as the original fills it.
func TestOpBodiesAreCutAtTheSize(t *testing.T) {
	for text, want := range map[string]string{"1,2,3,": "1,2,3,|", "11,22,33,": "11,22,|33,", "1,2,3,4,": "1,2,3,|4,", "1234567,8,": "1234567,|8,"} {
		body, rest := cutOps([]byte(text), 6)
		if got := string(body) + "|" + string(rest); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func FuzzOpBody(f *testing.F) {
	for _, body := range []string{"12,13,", "7", ",-1,x,", strings.Repeat("9", 30)} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var again []byte
		n := 0
		eachOp(body, func(o message.QueueOffset) {
			if o < 0 {
				t.Fatal(o)
			}
			again = appendOp(again, o)
			n++
		})
		var whole []byte
		for rest := again; len(rest) > 0; {
			var part []byte
			part, rest = cutOps(rest, 10)
			if len(part) == 0 {
				t.Fatal("nothing is cut off")
			}
			whole = append(whole, part...)
		}
		if string(whole) != string(again) || len(readOp(string(again))) != n {
			t.Fatalf("%q became %q", again, whole)
		}
	})
}

// The order of op messages is remembered coarser when there are many, never wrongly: no op message that is needed is passed.
func TestOpOrderForgetsNothing(t *testing.T) {
	var o opOrder
	const count = 3*opStepsMax + 17
	for i := range count {
		o.add(message.QueueOffset(i), message.QueueOffset(i/2*2))
	}
	if len(o.steps) > opStepsMax {
		t.Errorf("%d steps", len(o.steps))
	}
	for progress := message.QueueOffset(0); progress < count+2; progress += 997 {
		done := o.doneBelow(progress, 0)
		if want := min(progress+progress%2, count); done > want || want-done > 8 {
			t.Fatalf("progress %d: %d, at most %d", progress, done, want)
		}
	}
	if done := o.doneBelow(count+5, 0); done != count {
		t.Errorf("all done: %d of %d", done, count)
	}
	var none opOrder
	if none.doneBelow(10, 5) != 5 {
		t.Error("no op message was read")
	}
}
