// A recurrent layer's cells over a sequence: (B, T, 4 H) gates in the order i, f, g, o.

#include "compile/ops.h"
#include "compile/products.h"

namespace stowage::compile {
namespace {

struct Cells {
  explicit Cells(const Kernel& k)
      : batch(k.in(0).shape()[0]),
        time(k.in(0).shape()[1]),
        hidden(k.in(0).shape()[2] / 4),
        reverse(k.Int("reverse") == 1) {}

  Expr GateRow(const Expr& b, const Expr& t) const {
    return Plus({Times(b, time * 4 * hidden), Times(t, 4 * hidden)});
  }
  Expr UnitRow(const Expr& b, const Expr& t) const {
    return Plus({Times(b, time * hidden), Times(t, hidden)});
  }

  const int64_t batch, time, hidden;
  const bool reverse;
};

// Loops over positions in the order of the layer, or against it. `body` gets the position;
// pointers to what was before it are declared from `first`, (B, H), and `sequence`.
struct Before {
  std::string_view name;
  const Tensor& first;
  const Tensor& sequence;
};

void ForTime(Kernel& k, const Cells& cells, const Expr& b, bool forward,
             std::initializer_list<Before> before,
             const std::function<void(const Expr& t)>& body) {
  const Expr step = k.Fresh("step");
  k.Block(StrCat("for (dim_t ", step, " = 0; ", step, " < ", cells.time, "; ++",
                 step, ")"),
          [&] {
            const bool rises = forward != cells.reverse;
            const Expr t = k.Fresh("t");
            k.Line("const dim_t ", t, " = ",
                   rises ? step : StrCat(cells.time - 1, " - ", step), ";");
            const Expr is_first = cells.reverse
                                      ? StrCat(t, " == ", cells.time - 1)
                                      : StrCat(t, " == 0");
            const Expr last = cells.reverse ? StrCat("(", t, " + 1)")
                                            : StrCat("(", t, " - 1)");
            for (const Before& each : before) {
              k.Line("const ", CType(each.sequence.dtype()), " *", each.name,
                     " = ", is_first, " ? ", each.first.name(), " + ",
                     Times(b, cells.hidden), " : ", each.sequence.name(), " + ",
                     cells.UnitRow(b, last), ";");
            }
            body(t);
          });
}

}  // namespace

void WriteLstm(Kernel& k) {
  const Cells cells(k);
  const Tensor &x = k.in(0), &w = k.in(3), &gates = k.out(0), &h = k.out(1),
               &c = k.out(2);
  const int64_t hidden = cells.hidden;
  k.For("b", cells.batch, [&](const Expr& b) {
    ForTime(
        k, cells, b, true, {{"h_before", k.in(1), h}, {"c_before", k.in(2), c}},
        [&](const Expr& t) {
          const Expr row = cells.GateRow(b, t);
          k.For("gate", 4 * hidden, [&](const Expr& gate) {
            const Expr sum = WriteSum(k, hidden, [&](const Expr& u) {
              return StrCat(k.Load(w, Plus({Times(gate, hidden), u})),
                            " * h_before[", u, "]");
            });
            k.Line("const real in = ", k.Load(x, x.At({b, t, gate})), " + ",
                   sum, ";");
            const Expr is_cell = StrCat(gate, " >= ", 2 * hidden, " && ", gate,
                                        " < ", 3 * hidden);
            k.Store(gates, Plus({row, gate}),
                    hidden == 0 ? "in"
                                : StrCat(is_cell,
                                         " ? tanh@(in) : 1 / (1 + exp@(-in))"));
          });
          k.For("u", hidden, [&](const Expr& u) {
            const auto gate = [&](int64_t which) {
              return k.Load(gates, Plus({row, StrCat(which * hidden), u}));
            };
            k.Line("const real cell = ", gate(1), " * c_before[", u, "] + ",
                   gate(0), " * ", gate(2), ";");
            const Expr unit = Plus({cells.UnitRow(b, t), u});
            k.Store(c, unit, "cell");
            k.Store(h, unit, StrCat(gate(3), " * tanh@(cell)"));
          });
        });
  });
}

// dh and dc of one example.
int64_t ScratchOfLstmGrad(const Kernel& k) {
  return 2 * (k.in(0).shape()[2] / 4);
}

void WriteLstmGrad(Kernel& k) {
  const Cells cells(k);
  const Tensor &gates = k.in(0), &w = k.in(2), &c = k.in(3), &dh = k.in(4),
               &dgates = k.out(0);
  const int64_t hidden = cells.hidden;
  const auto dh_of = [](const Expr& u) {
    return StrCat(kScratch, "[", u, "]");
  };
  const auto dc_of = [&](const Expr& u) {
    return StrCat(kScratch, "[", Plus({StrCat(hidden), u}), "]");
  };
  k.For("b", cells.batch, [&](const Expr& b) {
    k.For("i", 2 * hidden,
          [&](const Expr& i) { k.Line(kScratch, "[", i, "] = 0;"); });
    ForTime(k, cells, b, false, {{"c_before", k.in(1), c}}, [&](const Expr& t) {
      const Expr row = cells.GateRow(b, t);
      k.For("u", hidden, [&](const Expr& u) {
        const auto gate = [&](int64_t which) {
          return Plus({row, StrCat(which * hidden), u});
        };
        for (int64_t which = 0; which < 4; ++which) {
          k.Line("const real g", which, " = ", k.Load(gates, gate(which)), ";");
        }
        k.Line("const real d_h = ", dh_of(u), " + ",
               k.Load(dh, dh.At({b, t, u})), ";");
        k.Line("const real tanh_c = tanh@(",
               k.Load(c, Plus({cells.UnitRow(b, t), u})), ");");
        k.Line("const real d_c = ", dc_of(u),
               k.num_inputs() > 5
                   ? StrCat(" + ", k.Load(k.in(5), k.in(5).At({b, t, u})))
                   : "",
               " + d_h * g3 * (1 - tanh_c * tanh_c);");
        k.Store(dgates, gate(0), "d_c * g2 * (g0 * (1 - g0))");
        k.Store(dgates, gate(1),
                StrCat("d_c * c_before[", u, "] * (g1 * (1 - g1))"));
        k.Store(dgates, gate(2), "d_c * g0 * (1 - g2 * g2)");
        k.Store(dgates, gate(3), "d_h * tanh_c * (g3 * (1 - g3))");
        k.Line(dc_of(u), " = d_c * g1;");
      });
      k.For("u", hidden, [&](const Expr& u) { k.Line(dh_of(u), " = 0;"); });
      k.For("gate", 4 * hidden, [&](const Expr& gate) {
        k.Line("const real d = ", k.Load(dgates, Plus({row, gate})), ";");
        k.For("u", hidden, [&](const Expr& u) {
          k.Line(dh_of(u), " += d * ",
                 k.Load(w, Plus({Times(gate, hidden), u})), ";");
        });
      });
    });
    k.For("u", hidden, [&](const Expr& u) {
      const Expr at = Plus({Times(b, hidden), u});
      k.Store(k.out(1), at, dh_of(u));
      k.Store(k.out(2), at, dc_of(u));
    });
  });
}

void WriteLstmWeightGrad(Kernel& k) {
  const Cells cells(k);
  const Tensor &dgates = k.in(0), &dw = k.out(0);
  const int64_t hidden = cells.hidden;
  k.For("i", dw.size(), [&](const Expr& i) { k.Store(dw, i, "0"); });
  k.For("b", cells.batch, [&](const Expr& b) {
    ForTime(k, cells, b, true, {{"h_before", k.in(1), k.in(2)}},
            [&](const Expr& t) {
              k.For("gate", 4 * hidden, [&](const Expr& gate) {
                k.Line("const real d = ",
                       k.Load(dgates, Plus({cells.GateRow(b, t), gate})), ";");
                k.For("u", hidden, [&](const Expr& u) {
                  k.Line(dw.name(), "[", Plus({Times(gate, hidden), u}),
                         "] += d * h_before[", u, "];");
                });
              });
            });
  });
}

}  // namespace stowage::compile
