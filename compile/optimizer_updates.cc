// Updates of optimizers. Those with states of f32 or f64 follow math/optimizer.h, one element
// at a time. Those with low-precision states compute in f32 on joined or decoded numbers,
// and then split, round stochastically or encode them (math/random.h).

#include <algorithm>
#include <array>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "compile/ops.h"
#include "ir/element_groups.h"

namespace stowage::compile {
namespace {

// The operands of an update: w, states, g, lr[, step][, scale].
struct UpdateRule {
  OpKind op;
  size_t states;
  bool has_step;
  std::string_view lines;  // from w, s0, s1 and g to new w, s0 and s1
};

constexpr UpdateRule kRules[] = {
    {OpKind::kSgdUpdate, 0, false, "w = w - lr * (g + decay * w);"},
    {OpKind::kMomentumUpdate, 1, false,
     "s0 = momentum * s0 + (g + decay * w);\nw = w - lr * s0;"},
    {OpKind::kNesterovUpdate, 1, false,
     "const real d = g + decay * w;\ns0 = momentum * s0 + d;\n"
     "w = w - lr * (d + momentum * s0);"},
    {OpKind::kRmsPropUpdate, 1, false,
     "const real d = g + decay * w;\n"
     "s0 = alpha * s0 + one_minus_alpha * (d * d);\n"
     "w = w - lr * d / (sqrt@(s0) + eps);"},
    {OpKind::kAdagradUpdate, 1, false,
     "const real d = g + decay * w;\ns0 = s0 + d * d;\n"
     "w = w - lr * d / (sqrt@(s0) + eps);"},
    {OpKind::kAdamUpdate, 2, true,
     "const real d = g + decay * w;\n"
     "s0 = beta1 * s0 + one_minus_beta1 * d;\n"
     "s1 = beta2 * s1 + one_minus_beta2 * (d * d);\n"
     "w = w - rate * s0 / (sqrt@(s1 * correction) + eps);"},
    {OpKind::kAdamWUpdate, 2, true,
     "s0 = beta1 * s0 + one_minus_beta1 * g;\n"
     "s1 = beta2 * s1 + one_minus_beta2 * (g * g);\n"
     "w = keep * w - rate * s0 / (sqrt@(s1 * correction) + eps);"},
};

const UpdateRule& RuleOf(OpKind op) {
  for (const UpdateRule& rule : kRules) {
    if (rule.op == op) return rule;
  }
  STOWAGE_CHECK(false);
}

// Declares the attributes that the rule mentions as constants.
void WriteUpdateConstants(Kernel& k, const UpdateRule& rule) {
  const auto constant = [&](std::string_view name, double value) {
    if (!Mentions(rule.lines, name)) return;
    k.Line("const real ", name, " = ", k.Real(value), ";");
  };
  for (const auto& [name, value] : k.attrs().entries()) {
    if (!std::holds_alternative<double>(value)) continue;
    constant(name, std::get<double>(value));
    constant(StrCat("one_minus_", name), 1 - std::get<double>(value));
  }
}

// The operands of an update: w[, delta], states, g, lr, step[, seed][, scale].
struct CompactUpdate {
  explicit CompactUpdate(const Kernel& k) : op(k.op()) {
    is_coded =
        op == OpKind::kAdamW8BitUpdate || op == OpKind::kAdamW8BitSplitUpdate;
    is_momentum = op == OpKind::kMomentumBf16Update ||
                  op == OpKind::kMomentumBf16SplitUpdate;
    is_rounded = is_momentum || op == OpKind::kAdamWBf16Update ||
                 op == OpKind::kAdamWBf16SplitUpdate;
    is_split = op != OpKind::kAdamWBf16Update &&
               op != OpKind::kAdamW8BitUpdate &&
               op != OpKind::kMomentumBf16Update;
    first = is_split ? 2 : 1;
    g = first + (is_momentum ? 1 : is_coded ? 4 : 2);
    lr = g + 1;
    scale = lr + (is_rounded ? 3 : 2);
    has_scale = k.num_inputs() > scale;
  }

  OpKind op;
  bool is_coded, is_momentum, is_rounded, is_split, has_scale = false;
  size_t first, g, lr, scale;  // operands; `first` of the states
};

std::string_view PartsSuffix(const Tensor& delta) {
  return delta.dtype() == DType::kU8 ? "24" : "32";
}

Expr Joined(const Tensor& w, const Tensor& delta, const Expr& at) {
  return StrCat("join_weight_", PartsSuffix(delta), "(", w.name(), "[", at,
                "], ", delta.name(), "[", at, "])");
}

void StoreParts(Kernel& k, const Tensor& w, const Tensor& delta, const Expr& at,
                const Expr& value) {
  k.Line("split_weight_", PartsSuffix(delta), "(", value, ", &", w.name(), "[",
         at, "], &", delta.name(), "[", at, "]);");
}

void WriteConstants(Kernel& k, const CompactUpdate& u) {
  if (u.has_scale) {
    k.Line("const real scale = ", k.Scalar(u.scale), ";");
    k.Line("if (isinf(scale)) return;");
  }
  const auto attribute = [&](std::string_view name) {
    return k.attrs().Float(name);
  };
  if (u.is_momentum) {
    k.Line("const real lr = ", k.Scalar(u.lr), ";");
    return;
  }
  k.Line("const double step = (double)", k.in(u.lr + 1).name(), "[0];");
  k.Line("const double lr = (double)", k.in(u.lr).name(), "[0];");
  k.Line("const real rate = (real)(lr / one_minus_power(",
         StrCat(attribute("beta1")), ", step));");
  k.Line("const real correction = (real)(1 / one_minus_power(",
         StrCat(attribute("beta2")), ", step));");
  k.Line("const real keep = (real)(1 - lr * ", StrCat(attribute("decay")),
         ");");
}

// Updates the variables w, m and v, or w and m, the velocity.
void WriteFormula(Kernel& k, const CompactUpdate& u) {
  const auto real = [&](std::string_view name) {
    return k.Real(k.attrs().Float(name));
  };
  if (u.is_momentum) {
    k.Line("m = ", real("momentum"), " * m + (g + ", real("decay"), " * w);");
    k.Line("w = w - lr * m;");
    return;
  }
  const auto rest = [&](std::string_view name) {
    return k.Real(1 - k.attrs().Float(name));
  };
  k.Line("m = ", real("beta1"), " * m + ", rest("beta1"), " * g;");
  k.Line("v = ", real("beta2"), " * v + ", rest("beta2"), " * (g * g);");
  k.Line("w = keep * w - rate * m / (sqrt@(v * correction) + ", real("eps"),
         ");");
}

// The element's weight and gradient, as variables w and g.
void LoadWeight(Kernel& k, const CompactUpdate& u, const Expr& i) {
  k.Line("real w = ",
         u.is_split ? Joined(k.in(0), k.in(1), i) : k.Load(k.in(0), i), ";");
  k.Line("const real g = ", k.Load(k.in(u.g), i), u.has_scale ? " * scale" : "",
         ";");
}

void StoreWeight(Kernel& k, const CompactUpdate& u, const Expr& i) {
  u.is_split ? StoreParts(k, k.out(0), k.out(1), i, "w")
             : k.Store(k.out(0), i, "w");
}

// --- 8-bit moments: by blocks of elements that share a scale ---

std::array<std::string_view, 2> CodesOf(const Kernel& k) {
  return k.Int("companded") != 0
             ? std::array<std::string_view, 2>{"signed_companded", "companded"}
             : std::array<std::string_view, 2>{"signed_dynamic", "dynamic"};
}

void WriteCodedBlock(Kernel& k, const CompactUpdate& u, const Expr& block,
                     const Expr& begin, int64_t count) {
  const std::array codes = CodesOf(k);
  const Expr ms = k.Array("ms", {kMomentBlock});
  const Expr vs = k.Array("vs", {kMomentBlock});
  const auto of_block = [&](size_t state) {
    return StrCat(k.in(u.first + state).name(), "[", block, "]");
  };
  k.Line("real m_largest = 0;");
  k.Line("real v_largest = 0;");
  k.For("j", count, [&](const Expr& j) {
    k.Line("const dim_t i = ", Plus({begin, j}), ";");
    LoadWeight(k, u, "i");
    k.Line("real m = ", of_block(2), " * ", codes[0], "_decode(",
           k.in(u.first).name(), "[i]);");
    k.Line("real v = ", of_block(3), " * ", codes[1], "_decode(",
           k.in(u.first + 1).name(), "[i]);");
    WriteFormula(k, u);
    StoreWeight(k, u, "i");
    k.Line(ms, "[", j, "] = m;");
    k.Line(vs, "[", j, "] = v;");
    k.Line("m_largest = maximum@(m_largest, fabs@(m));");
    k.Line("v_largest = maximum@(v_largest, fabs@(v));");
  });
  k.Line("const real m_inverse = m_largest > 0 ? 1 / m_largest : 0;");
  k.Line("const real v_inverse = v_largest > 0 ? 1 / v_largest : 0;");
  k.For("j", count, [&](const Expr& j) {
    const Expr i = Plus({begin, j});
    k.Line(k.out(u.first).name(), "[", i, "] = ", codes[0], "_encode(", ms, "[",
           j, "] * m_inverse);");
    k.Line(k.out(u.first + 1).name(), "[", i, "] = ", codes[1], "_encode(", vs,
           "[", j, "] * v_inverse);");
  });
  k.Line(k.out(u.first + 2).name(), "[", block, "] = m_largest;");
  k.Line(k.out(u.first + 3).name(), "[", block, "] = v_largest;");
}

void WriteCoded(Kernel& k, const CompactUpdate& u) {
  const int64_t size = k.in(0).size();
  const int64_t whole = size / kMomentBlock, rest = size % kMomentBlock;
  if (whole > 0) {
    k.For("block", whole, [&](const Expr& block) {
      k.Block("", [&] {
        WriteCodedBlock(k, u, block, Times(block, kMomentBlock), kMomentBlock);
      });
    });
  }
  if (rest == 0) return;
  k.Block("", [&] {
    WriteCodedBlock(k, u, StrCat(whole), StrCat(whole * kMomentBlock), rest);
  });
}

}  // namespace

void WriteUpdate(Kernel& k) {
  const UpdateRule& rule = RuleOf(k.op());
  const size_t g = 1 + rule.states, lr = g + 1;
  const size_t scale = lr + (rule.has_step ? 2 : 1);
  const bool has_scale = k.num_inputs() > scale;
  if (has_scale) {
    k.Line("const real scale = ", k.Scalar(scale), ";");
    k.Line("if (isinf(scale)) return;");
  }
  if (rule.has_step) {
    const double beta1 = k.attrs().Float("beta1");
    const double beta2 = k.attrs().Float("beta2");
    k.Line("const double step = (double)", k.in(lr + 1).name(), "[0];");
    k.Line("const double lr = (double)", k.in(lr).name(), "[0];");
    k.Line("const real rate = (real)(lr / one_minus_power(", StrCat(beta1),
           ", step));");
    k.Line("const real correction = (real)(1 / one_minus_power(", StrCat(beta2),
           ", step));");
    if (Mentions(rule.lines, "keep")) {
      k.Line("const real keep = (real)(1 - lr * ",
             StrCat(k.attrs().Float("decay")), ");");
    }
  } else {
    k.Line("const real lr = ", k.Scalar(lr), ";");
  }
  WriteUpdateConstants(k, rule);
  k.ForVectors("i", k.in(0).size(), [&](const Expr& i) {
    k.Line("real w = ", k.Load(k.in(0), i), ";");
    for (size_t s = 0; s < rule.states; ++s) {
      k.Line("real s", s, " = ", k.Load(k.in(1 + s), i), ";");
    }
    k.Line("const real g = ", k.Load(k.in(g), i), has_scale ? " * scale" : "",
           ";");
    for (std::string_view rest = rule.lines; !rest.empty();) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      k.Line(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    k.Store(k.out(0), i, "w");
    for (size_t s = 0; s < rule.states; ++s) {
      k.Store(k.out(1 + s), i, StrCat("s", s));
    }
  });
}

void WriteLerpUpdate(Kernel& k) {
  // The weight is a scalar, or one for each element.
  const bool is_scalar = k.in(2).shape() != k.out(0).shape();
  std::vector<const Tensor*> all = {&k.in(1), &k.out(0)};
  if (!is_scalar) all.push_back(&k.in(2));
  k.ForElements(all, [&](std::span<const Expr> at) {
    k.Line("const real weight = ", k.LoadReal(k.in(2), is_scalar ? "0" : at[2]),
           ";");
    k.Line("const real from = ", k.Load(k.out(0), at[1]), ";");
    k.Store(k.out(0), at[1],
            StrCat("isinf(weight) ? from : (1 - weight) * from + weight * ",
                   k.Load(k.in(1), at[0])));
  });
}

void WriteCompactUpdate(Kernel& k) {
  const CompactUpdate u(k);
  WriteConstants(k, u);
  if (u.is_coded) return WriteCoded(k, u);
  const size_t states = u.is_momentum ? 1 : 2;
  if (u.is_rounded) k.Line("uint32_t words[4] = {0, 0, 0, 0};");
  k.For("i", k.in(0).size(), [&](const Expr& i) {
    LoadWeight(k, u, i);
    k.Line("real m = ", k.Load(k.in(u.first), i), ";");
    if (states == 2) k.Line("real v = ", k.Load(k.in(u.first + 1), i), ";");
    WriteFormula(k, u);
    StoreWeight(k, u, i);
    if (!u.is_rounded) {
      k.Store(k.out(u.first), i, "m");
      k.Store(k.out(u.first + 1), i, "v");
      return;
    }
    const int64_t first = k.Int("first");
    k.Line("const int64_t element = ", first, " + (int64_t)", i, ";");
    k.Block(StrCat("if (element % 4 == 0 || ", i, " == 0)"), [&] {
      k.Line("random_words(", k.in(u.lr + 2).name(), "[0], ",
             k.in(u.lr + 1).name(), "[0], ", static_cast<uint32_t>(k.Int("id")),
             "U, 1U, element / 4, words);");
    });
    k.Line("const uint32_t word = words[element % 4];");
    k.Line(k.out(u.first).name(), "[", i,
           "] = stochastic_bfloat16(m, word & 0xFFFFU);");
    if (states == 1) return;
    k.Line(k.out(u.first + 1).name(), "[", i,
           "] = stochastic_bfloat16(v, word >> 16);");
  });
}

void WriteJoinWeight(Kernel& k) {
  k.For("i", k.out(0).size(), [&](const Expr& i) {
    k.Store(k.out(0), i, Joined(k.in(0), k.in(1), i));
  });
}

void WriteSplitUpdate(Kernel& k) {
  k.For("i", k.out(0).size(), [&](const Expr& i) {
    StoreParts(k, k.out(0), k.out(1), i, k.Load(k.in(2), i));
  });
}

}  // namespace stowage::compile
