// Ops that move elements, except views, which are strides and offsets of operands.

#include <array>

#include "compile/ops.h"
#include "ir/windows.h"

namespace stowage::compile {
namespace {

// Copies one element of any type.
void Move(Kernel& k, const Tensor& to, const Expr& at, const Tensor& from,
          const Expr& where) {
  if (k.width() > 1) return k.Store(to, at, k.Load(from, where));
  k.Line(to.name(), "[", at, "] = ", from.name(), "[", where, "];");
}

void MoveAll(Kernel& k, const Tensor& from, const Tensor& to) {
  const std::array both = {&from, &to};
  k.ForElements(
      both, [&](std::span<const Expr> at) { Move(k, to, at[1], from, at[0]); });
}

// Declares `source`, the element of axis `axis` of x that element `i` of the padded axis
// repeats: below 0 where that is the constant.
Expr WriteSource(Kernel& k, int64_t in, int64_t before, PadMode mode,
                 const Expr& i) {
  const Expr source = k.Fresh("source");
  const Expr at = before == 0 ? i : StrCat(i, " - ", before);
  switch (mode) {
    case PadMode::kConstant:
      k.Line("const dim_t ", source, " = ", at, ";");
      break;
    case PadMode::kEdge:
      k.Line("const dim_t ", source, " = ", at, " < 0 ? 0 : ", at, " < ", in,
             " ? ", at, " : ", in - 1, ";");
      break;
    case PadMode::kReflect:
      k.Line("const dim_t ", source, " = ", at, " < 0 ? -(", at, ") : ", at,
             " < ", in, " ? ", at, " : ", 2 * (in - 1), " - (", at, ");");
      break;
  }
  return source;
}

// Loops over the elements of the padded tensor `y`, with the position in x and in y, and a
// condition that the element is no padding of a constant, or "".
void ForPadded(Kernel& k, const Tensor& x, const Tensor& y,
               const std::function<void(const Expr& x_at, const Expr& y_at,
                                        const Expr& inside)>& body) {
  const auto mode = static_cast<PadMode>(k.Int("mode"));
  const auto& before = k.attrs().Ints("before");
  k.ForEach(y.shape(), [&](const Index& at) {
    Index source;
    Expr inside;
    for (int axis = 0; axis < x.shape().rank(); ++axis) {
      const auto a = static_cast<size_t>(axis);
      if (x.shape()[axis] == y.shape()[axis]) {
        source.push_back(at[a]);
        continue;
      }
      source.push_back(WriteSource(k, x.shape()[axis], before[a], mode, at[a]));
      if (mode != PadMode::kConstant) continue;
      inside += StrCat(inside.empty() ? "" : " && ", source.back(), " >= 0 && ",
                       source.back(), " < ", x.shape()[axis]);
    }
    body(x.At(source), y.At(at), inside);
  });
}

}  // namespace

void WriteMove(Kernel& k) { MoveAll(k, k.in(0), k.out(0)); }

void WriteAssign(Kernel& k) { MoveAll(k, k.in(1), k.out(0)); }

void WriteConcat(Kernel& k) {
  const auto axis = static_cast<size_t>(k.Int("axis"));
  int64_t start = 0;
  for (size_t i = 0; i < k.num_inputs(); ++i) {
    const Tensor& part = k.in(i);
    k.ForEach(part.shape(), [&](const Index& at) {
      Index to = at;
      to[axis] = Plus({at[axis], StrCat(start)});
      Move(k, k.out(0), k.out(0).At(to), part, part.At(at));
    });
    start += part.shape()[static_cast<int>(axis)];
  }
}

void WritePad(Kernel& k) {
  ForPadded(k, k.in(0), k.out(0),
            [&](const Expr& from, const Expr& to, const Expr& inside) {
              const Expr value = k.Load(k.in(0), from);
              k.Store(k.out(0), to,
                      inside.empty()
                          ? value
                          : StrCat(inside, " ? ", value, " : ",
                                   k.Real(k.attrs().Float("value"))));
            });
}

void WritePadGrad(Kernel& k) {
  const Tensor& dx = k.out(0);
  k.Clear(dx);
  ForPadded(k, dx, k.in(0),
            [&](const Expr& to, const Expr& from, const Expr& inside) {
              const auto add = [&] {
                k.Line(dx.name(), "[", to, "] += ", k.Load(k.in(0), from), ";");
              };
              inside.empty() ? add()
                             : k.Block(StrCat("if (", inside, ")"), add);
            });
}

void WriteSliceUpdate(Kernel& k) {
  const auto axis = static_cast<size_t>(k.Int("axis"));
  const Tensor &to = k.out(0), &part = k.in(1);
  Expr start = StrCat(k.Int("start"));
  if (k.num_inputs() == 3) {
    const int dim = static_cast<int>(axis);
    const int64_t limit =
        to.shape()[dim] - part.shape()[dim] + 1 - k.Int("start");
    start = Plus({k.LoadIndex(k.in(2), "0", limit), start});
  }
  k.ForEach(part.shape(), [&](const Index& at) {
    Index there = at;
    there[axis] = Plus({at[axis], start});
    Move(k, to, to.At(there), part, part.At(at));
  });
}

}  // namespace stowage::compile
