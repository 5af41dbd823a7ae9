// Optimizers whose states are of f32 or f64, one element at a time: the formulas of
// math/optimizer.h.

#include <algorithm>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "compile/ops.h"

namespace stowage::compile {
namespace {

// How the operands of an update stand: w, states, g, lr[, step][, scale].
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

// Attributes as constants of the rule's names, those that it mentions.
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
  k.For("i", k.in(0).size(), [&](const Expr& i) {
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

}  // namespace stowage::compile
