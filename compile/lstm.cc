// LSTM layers: (B, T, 4 H) gates in the order i, f, g, o.

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

// The state before position `t`, from a sequence or the initial state (B, H). `name` holds the
// address of example 0, `name`_step the distance of examples.
struct Before {
  std::string_view name;
  const Tensor& first;
  const Tensor& sequence;

  Expr Load(Kernel& k, const Expr& b, const Expr& u) const {
    const Tensor state(std::string(name), {sequence.dtype(), first.shape()},
                       first.strides());
    return k.Load(
        state,
        Plus({b == "0" ? "0" : StrCat("(", b, ") * ", name, "_step"), u}));
  }
};

// Loops over positions in the order of the layer, or against it; `body` gets the position.
void ForTime(Kernel& k, const Cells& cells, bool forward,
             std::initializer_list<Before> before,
             const std::function<void(const Expr& t)>& body) {
  k.Block(StrCat("for (dim_t step = 0; step < ", cells.time, "; ++step)"), [&] {
    const bool rises = forward != cells.reverse;
    const Expr t = k.Fresh("t");
    k.Line("const dim_t ", t, " = ",
           rises ? "step" : StrCat(cells.time - 1, " - step"), ";");
    const Expr is_first = StrCat(t, " == ", cells.reverse ? cells.time - 1 : 0);
    for (const Before& each : before) {
      k.Line("const ", CType(each.sequence.dtype()), " *", each.name, " = ",
             is_first, " ? ", each.first.name(), " : ", each.sequence.name(),
             " + ",
             Times(StrCat(t, cells.reverse ? " + 1" : " - 1"), cells.hidden),
             ";");
      if (cells.batch == 1) continue;
      k.Line("const dim_t ", each.name, "_step = ", is_first, " ? ",
             cells.hidden, " : ", cells.time * cells.hidden, ";");
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
  const Before h_before{"h_before", k.in(1), h};
  const Before c_before{"c_before", k.in(2), c};
  ForTime(k, cells, true, {h_before, c_before}, [&](const Expr& t) {
    WriteProduct(
        k, {.m = cells.batch,
            .n = 4 * hidden,
            .k = hidden,
            .a = [&](const Expr& b,
                     const Expr& u) { return h_before.Load(k, b, u); },
            .b =
                [&](const Expr& u, const Expr& gate) {
                  return k.Load(w, Plus({Times(gate, hidden), u}));
                },
            .is_along_k = true,
            .store =
                [&](const Expr& b, const Expr& gate, const Expr& sum) {
                  const Expr in = k.Fresh("in");
                  k.Line("const real ", in, " = ",
                         k.Load(x, x.At({b, t, gate})), " + (", sum, ");");
                  k.Store(gates, Plus({cells.GateRow(b, t), gate}), in);
                }});
    k.For("b", cells.batch, [&](const Expr& b) {
      k.ForVectors("u", hidden, [&](const Expr& u) {
        const auto gate = [&](int64_t which) {
          return Plus({cells.GateRow(b, t), StrCat(which * hidden), u});
        };
        for (int64_t which = 0; which < 4; ++which) {
          const Expr in = k.Load(gates, gate(which));
          k.Line("const real g", which, " = ",
                 which == 2 ? StrCat("tanh@(", in, ")")
                            : StrCat("1 / (1 + exp@(-", in, "))"),
                 ";");
        }
        for (int64_t which = 0; which < 4; ++which) {
          k.Store(gates, gate(which), StrCat("g", which));
        }
        k.Line("const real cell = g1 * ", c_before.Load(k, b, u),
               " + g0 * g2;");
        const Expr unit = Plus({cells.UnitRow(b, t), u});
        k.Store(c, unit, "cell");
        k.Store(h, unit, "g3 * tanh@(cell)");
      });
    });
  });
}

// dh and dc of all examples.
int64_t ScratchOfLstmGrad(const Kernel& k) {
  return 2 * k.in(0).shape()[0] * (k.in(0).shape()[2] / 4);
}

void WriteLstmGrad(Kernel& k) {
  const Cells cells(k);
  const Tensor &gates = k.in(0), &w = k.in(2), &c = k.in(3), &dh = k.in(4),
               &dgates = k.out(0);
  const int64_t hidden = cells.hidden;
  const Before c_before{"c_before", k.in(1), c};
  // The gradients of h and c from the position that comes next.
  const Tensor d_next = k.Scratch(0, Shape{2, cells.batch, hidden});
  const auto dh_at = [&](const Expr& b, const Expr& u) {
    return d_next.At({"0", b, u});
  };
  const auto dc_at = [&](const Expr& b, const Expr& u) {
    return d_next.At({"1", b, u});
  };
  k.Clear(d_next);
  ForTime(k, cells, false, {c_before}, [&](const Expr& t) {
    k.For("b", cells.batch, [&](const Expr& b) {
      k.ForVectors("u", hidden, [&](const Expr& u) {
        const auto gate = [&](int64_t which) {
          return Plus({cells.GateRow(b, t), StrCat(which * hidden), u});
        };
        for (int64_t which = 0; which < 4; ++which) {
          k.Line("const real g", which, " = ", k.Load(gates, gate(which)), ";");
        }
        k.Line("const real d_h = ", k.Load(d_next, dh_at(b, u)), " + ",
               k.Load(dh, dh.At({b, t, u})), ";");
        k.Line("const real tanh_c = tanh@(",
               k.Load(c, Plus({cells.UnitRow(b, t), u})), ");");
        k.Line("const real d_c = ", k.Load(d_next, dc_at(b, u)),
               k.num_inputs() > 5
                   ? StrCat(" + ", k.Load(k.in(5), k.in(5).At({b, t, u})))
                   : "",
               " + d_h * g3 * (1 - tanh_c * tanh_c);");
        k.Store(dgates, gate(0), "d_c * g2 * (g0 * (1 - g0))");
        k.Store(dgates, gate(1),
                StrCat("d_c * ", c_before.Load(k, b, u), " * (g1 * (1 - g1))"));
        k.Store(dgates, gate(2), "d_c * g0 * (1 - g2 * g2)");
        k.Store(dgates, gate(3), "d_h * tanh_c * (g3 * (1 - g3))");
        k.Store(d_next, dc_at(b, u), "d_c * g1");
      });
    });
    WriteProduct(
        k,
        {.m = cells.batch,
         .n = hidden,
         .k = 4 * hidden,
         .a =
             [&](const Expr& b, const Expr& gate) {
               return k.Load(dgates, Plus({cells.GateRow(b, t), gate}));
             },
         .b =
             [&](const Expr& gate, const Expr& u) {
               return k.Load(w, Plus({Times(gate, hidden), u}));
             },
         .is_along_n = true,
         .store = [&](const Expr& b, const Expr& u,
                      const Expr& sum) { k.Store(d_next, dh_at(b, u), sum); }});
  });
  k.For("b", cells.batch, [&](const Expr& b) {
    k.ForVectors("u", hidden, [&](const Expr& u) {
      const Expr at = Plus({Times(b, hidden), u});
      k.Store(k.out(1), at, k.Load(d_next, dh_at(b, u)));
      k.Store(k.out(2), at, k.Load(d_next, dc_at(b, u)));
    });
  });
}

// One matmul over all positions of all examples that have a position before them, plus the
// contribution of the initial states.
void WriteLstmWeightGrad(Kernel& k) {
  const Cells cells(k);
  const Tensor &dgates = k.in(0), &h0 = k.in(1), &h = k.in(2), &dw = k.out(0);
  const int64_t hidden = cells.hidden, later = cells.time - 1;
  // The example, and the earlier of two neighbouring positions, of the innermost loop.
  Expr example, position;
  const auto neighbour = [&](bool is_after) {
    return Plus({position, is_after == cells.reverse ? "0" : "1"});
  };
  const Expr first = cells.reverse ? StrCat(cells.time - 1) : "0";
  const auto from_first = [&](const Expr& gate, const Expr& u) {
    k.For("b", cells.batch, [&](const Expr& b) {
      k.Line("total += ", k.Load(dgates, Plus({cells.GateRow(b, first), gate})),
             " * ", k.Load(h0, Plus({Times(b, hidden), u})), ";");
    });
  };
  const auto store = [&](const Expr& gate, const Expr& u, const Expr& sum) {
    k.Block("", [&] {
      k.Line("real total = ", sum, ";");
      from_first(gate, u);
      k.Store(dw, Plus({Times(gate, hidden), u}), "total");
    });
  };
  if (later == 0) {
    k.For("gate", 4 * hidden, [&](const Expr& gate) {
      k.For("u", hidden, [&](const Expr& u) { store(gate, u, "0"); });
    });
    return;
  }
  WriteProduct(
      k, {.m = 4 * hidden,
          .n = hidden,
          .a =
              [&](const Expr& gate, const Expr&) {
                return k.Load(
                    dgates,
                    Plus({cells.GateRow(example, neighbour(true)), gate}));
              },
          .b =
              [&](const Expr&, const Expr& u) {
                return k.Load(
                    h, Plus({cells.UnitRow(example, neighbour(false)), u}));
              },
          .for_k =
              [&](const std::function<void(const Expr&)>& body) {
                k.For("b", cells.batch, [&](const Expr& b) {
                  k.For("t", later, [&](const Expr& t) {
                    example = b;
                    position = t;
                    body(t);
                  });
                });
              },
          .is_along_n = true,
          .store = store});
}

}  // namespace stowage::compile
