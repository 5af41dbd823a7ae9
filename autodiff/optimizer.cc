#include "autodiff/optimizer.h"

#include <cmath>

#include "base/strings.h"
#include "ir/ops.h"

namespace stowage {
namespace {

// Of std::visit.
template <typename... Cases>
struct Overload : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overload(Cases...) -> Overload<Cases...>;

Status Check(std::string_view name, double value, bool holds,
             std::string_view expected) {
  if (holds && std::isfinite(value)) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[optimizer] ", name, " is ", value, "; expected ", expected)};
}
Status CheckFraction(std::string_view name, double value) {
  return Check(name, value, value >= 0 && value < 1, "at least 0 and below 1");
}
Status CheckDecay(double decay) {
  return Check("decay", decay, decay >= 0, "a finite number of at least 0");
}

// What the parts of an update are called in the step graph, where free.
void NameNew(Value updated, std::string_view leaf) {
  if (!updated.ok()) return;
  GraphBuilder& g = *updated.builder();
  const std::string name = StrCat("new:", leaf);
  if (!g.Find(name)) g.Name(name, updated);
}

}  // namespace

std::string_view OptimizerName(const Optimizer& optimizer) {
  return std::visit(Overload{[](const Sgd&) { return "sgd"; },
                             [](const Momentum&) { return "momentum"; },
                             [](const AdamW&) { return "adamw"; }},
                    optimizer);
}

Result<Optimizer> ParseOptimizer(std::string_view name) {
  for (const Optimizer& optimizer :
       {Optimizer(Sgd{}), Optimizer(Momentum{}), Optimizer(AdamW{})}) {
    if (name == OptimizerName(optimizer)) return optimizer;
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[optimizer] there is no optimizer ", Quoted(name),
                      "; expected sgd, momentum or adamw")};
}

Status CheckOptimizer(const Optimizer& optimizer) {
  return std::visit(
      Overload{[](const Sgd& sgd) { return CheckDecay(sgd.decay); },
               [](const Momentum& momentum) -> Status {
                 STOWAGE_RETURN_IF_ERROR(
                     CheckFraction("momentum", momentum.momentum));
                 return CheckDecay(momentum.decay);
               },
               [](const AdamW& adamw) -> Status {
                 STOWAGE_RETURN_IF_ERROR(CheckFraction("beta1", adamw.beta1));
                 STOWAGE_RETURN_IF_ERROR(CheckFraction("beta2", adamw.beta2));
                 STOWAGE_RETURN_IF_ERROR(Check("eps", adamw.eps, adamw.eps > 0,
                                               "a finite number above 0"));
                 return CheckDecay(adamw.decay);
               }},
      optimizer);
}

std::vector<std::string> StateNames(const Optimizer& optimizer,
                                    std::string_view name) {
  using Names = std::vector<std::string>;
  return std::visit(
      Overload{
          [](const Sgd&) { return Names{}; },
          [&](const Momentum&) { return Names{StrCat(name, ".velocity")}; },
          [&](const AdamW&) {
            return Names{StrCat(name, ".m"), StrCat(name, ".v")};
          }},
      optimizer);
}

void EmitUpdate(const Optimizer& optimizer, Value param, Value gradient,
                const UpdateInputs& inputs) {
  if (!param.ok()) return;
  GraphBuilder& g = *param.builder();
  const ValueInfo info = g.info(param);  // a copy: the graph grows
  const std::vector<std::string> names = StateNames(optimizer, info.name);
  std::vector<Value> states;
  for (const std::string& name : names) {
    states.push_back(g.State(name, info.type.dtype, info.type.shape));
  }
  const auto [lr, step, scale] = inputs;
  std::vector<Value> updated;  // the param, then the states
  if (const Sgd* sgd = std::get_if<Sgd>(&optimizer)) {
    updated = {SgdUpdate(param, gradient, lr, scale, sgd->decay)};
  } else if (const Momentum* momentum = std::get_if<Momentum>(&optimizer)) {
    const MomentumResults results =
        MomentumUpdate(param, states[0], gradient, lr, scale,
                       momentum->momentum, momentum->decay);
    updated = {results.w, results.velocity};
  } else if (const AdamW* adamw = std::get_if<AdamW>(&optimizer)) {
    const AdamWResults results =
        AdamWUpdate(param, states[0], states[1], gradient, lr, step, scale,
                    adamw->beta1, adamw->beta2, adamw->eps, adamw->decay);
    updated = {results.w, results.m, results.v};
  }
  NameNew(updated[0], info.name);
  for (size_t i = 0; i < names.size(); ++i) NameNew(updated[i + 1], names[i]);
}

ClipScale EmitClipScale(GraphBuilder& g, const std::vector<Value>& gradients,
                        double max_norm) {
  Value total;
  for (const Value& gradient : gradients) {
    const Value squares = Cast(SumSquares(gradient), DType::kF32);
    total = total.ok() ? Add(total, squares) : squares;
  }
  const Value norm = Sqrt(total);
  const Value limit = Fill(g, max_norm, DType::kF32, {});
  const Value one = Fill(g, 1, DType::kF32, {});
  return {Minimum(Div(limit, AddScalar(norm, 1e-6)), one), norm};
}

}  // namespace stowage
