#include "autodiff/optimizer.h"

#include <cmath>
#include <optional>

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

// A state of a param: what its name ends in, and its element type.
struct State {
  std::string_view suffix;
  DType dtype;
};

bool HasSplitMaster(DType param) { return param == DType::kBF16; }

// The states of a param of type `param`, in the order of the update's operands.
std::vector<State> StatesOf(const Optimizer& optimizer, DType param) {
  using States = std::vector<State>;
  return std::visit(Overload{[](const Sgd&) { return States{}; },
                             [&](const Momentum&) {
                               return States{{".velocity", param}};
                             },
                             [&](const Nesterov&) {
                               return States{{".velocity", param}};
                             },
                             [&](const RmsProp&) {
                               return States{{".v", param}};
                             },
                             [&](const Adagrad&) {
                               return States{{".v", param}};
                             },
                             [&](const Adam&) {
                               return States{{".m", param}, {".v", param}};
                             },
                             [&](const AdamW&) {
                               if (HasSplitMaster(param)) {
                                 return States{{".delta", DType::kI16},
                                               {".m", DType::kF32},
                                               {".v", DType::kF32}};
                               }
                               return States{{".m", param}, {".v", param}};
                             },
                             // What rules keep they declare themselves.
                             [](const auto&) { return States{}; }},
                    optimizer);
}

// The rule that an optimizer is, if it is one.
std::optional<UpdateRule> AsRule(const Optimizer& optimizer) {
  using Rule = std::optional<UpdateRule>;
  return std::visit(
      Overload{
          [](const Lion& lion) -> Rule { return RuleOf(lion); },
          [](const Adafactor& adafactor) -> Rule { return RuleOf(adafactor); },
          [](const Muon& muon) -> Rule { return RuleOf(muon); },
          [](const UpdateRule& rule) -> Rule { return rule; },
          [](const auto&) -> Rule { return std::nullopt; }},
      optimizer);
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
  using Name = std::string_view;
  return std::visit(
      Overload{[](const Sgd&) -> Name { return "sgd"; },
               [](const Momentum&) -> Name { return "momentum"; },
               [](const AdamW&) -> Name { return "adamw"; },
               [](const Nesterov&) -> Name { return "nesterov"; },
               [](const RmsProp&) -> Name { return "rmsprop"; },
               [](const Adagrad&) -> Name { return "adagrad"; },
               [](const Adam&) -> Name { return "adam"; },
               [](const Lion&) -> Name { return "lion"; },
               [](const Adafactor&) -> Name { return "adafactor"; },
               [](const Muon&) -> Name { return "muon"; },
               [](const UpdateRule& rule) -> Name { return rule.name; }},
      optimizer);
}

Result<Optimizer> ParseOptimizer(std::string_view name) {
  for (const Optimizer& optimizer :
       {Optimizer(Sgd{}), Optimizer(Momentum{}), Optimizer(Nesterov{}),
        Optimizer(RmsProp{}), Optimizer(Adagrad{}), Optimizer(Adam{}),
        Optimizer(AdamW{}), Optimizer(Lion{}), Optimizer(Adafactor{}),
        Optimizer(Muon{})}) {
    if (name == OptimizerName(optimizer)) return optimizer;
  }
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[optimizer] there is no optimizer ", Quoted(name),
             "; expected sgd, momentum, nesterov, rmsprop, adagrad, adam, "
             "adamw, lion, adafactor or muon")};
}

double DefaultLearningRate(const Optimizer& optimizer) {
  if (const auto rule = AsRule(optimizer)) return rule->learning_rate;
  return std::visit(Overload{[](const Sgd&) { return 1e-1; },
                             [](const Momentum&) { return 2e-2; },
                             [](const Nesterov&) { return 2e-2; },
                             [](const RmsProp&) { return 1e-2; },
                             [](const Adagrad&) { return 1e-2; },
                             [](const Adam&) { return 1e-3; },
                             [](const AdamW&) { return 1e-3; },
                             [](const auto&) { return 0.0; }},  // rules, above
                    optimizer);
}

Status CheckOptimizer(const Optimizer& optimizer) {
  const auto check_eps = [](double eps) {
    return Check("eps", eps, eps > 0, "a finite number above 0");
  };
  const auto check_momentum = [](const auto& momentum) -> Status {
    STOWAGE_RETURN_IF_ERROR(CheckFraction("momentum", momentum.momentum));
    return CheckDecay(momentum.decay);
  };
  const auto check_adam = [&](const auto& adam) -> Status {
    STOWAGE_RETURN_IF_ERROR(CheckFraction("beta1", adam.beta1));
    STOWAGE_RETURN_IF_ERROR(CheckFraction("beta2", adam.beta2));
    STOWAGE_RETURN_IF_ERROR(check_eps(adam.eps));
    return CheckDecay(adam.decay);
  };
  return std::visit(
      Overload{
          [](const Sgd& sgd) { return CheckDecay(sgd.decay); },
          [&](const Momentum& momentum) { return check_momentum(momentum); },
          [&](const Nesterov& nesterov) { return check_momentum(nesterov); },
          [&](const RmsProp& rms) -> Status {
            STOWAGE_RETURN_IF_ERROR(CheckFraction("alpha", rms.alpha));
            STOWAGE_RETURN_IF_ERROR(check_eps(rms.eps));
            return CheckDecay(rms.decay);
          },
          [&](const Adagrad& adagrad) -> Status {
            STOWAGE_RETURN_IF_ERROR(check_eps(adagrad.eps));
            return CheckDecay(adagrad.decay);
          },
          [&](const Adam& adam) { return check_adam(adam); },
          [&](const AdamW& adamw) { return check_adam(adamw); },
          [](const Lion& lion) -> Status {
            STOWAGE_RETURN_IF_ERROR(CheckFraction("beta1", lion.beta1));
            STOWAGE_RETURN_IF_ERROR(CheckFraction("beta2", lion.beta2));
            return CheckDecay(lion.decay);
          },
          [&](const Adafactor& adafactor) -> Status {
            const double beta2_decay = adafactor.beta2_decay;
            STOWAGE_RETURN_IF_ERROR(Check("beta2_decay", beta2_decay,
                                          beta2_decay < 0,
                                          "a finite number below 0"));
            STOWAGE_RETURN_IF_ERROR(check_eps(adafactor.eps2));
            STOWAGE_RETURN_IF_ERROR(Check("clip", adafactor.clip,
                                          adafactor.clip > 0,
                                          "a finite number above 0"));
            return CheckDecay(adafactor.decay);
          },
          [&](const Muon& muon) -> Status {
            STOWAGE_RETURN_IF_ERROR(Check(
                "iterations", muon.iterations,
                muon.iterations >= 1 && muon.iterations <= 100, "1 to 100"));
            STOWAGE_RETURN_IF_ERROR(CheckFraction("momentum", muon.momentum));
            return check_adam(muon);
          },
          [](const UpdateRule& rule) { return CheckUpdateRule(rule); }},
      optimizer);
}

std::vector<std::string> StateNames(const Optimizer& optimizer,
                                    std::string_view name, DType dtype) {
  std::vector<std::string> names;
  for (const State& state : StatesOf(optimizer, dtype)) {
    names.push_back(StrCat(name, state.suffix));
  }
  return names;
}

void EmitUpdate(const Optimizer& optimizer, Value param, Value gradient,
                const UpdateInputs& inputs) {
  if (!param.ok()) return;
  GraphBuilder& g = *param.builder();
  if (const auto rule = AsRule(optimizer)) {
    Value clipped = gradient;
    if (inputs.clip_scale.builder() != nullptr) {
      clipped = Mul(gradient, Cast(inputs.clip_scale, gradient.dtype()));
    }
    ParamUpdate update(param, clipped);
    update.lr = inputs.lr;
    update.step = inputs.step;
    update.decay = rule->decay;
    EmitUpdate(*rule, update);
    return;
  }
  const ValueInfo info = g.info(param);  // a copy: the graph grows
  std::vector<std::string> names;
  std::vector<Value> states;
  for (const State& state : StatesOf(optimizer, info.type.dtype)) {
    names.push_back(StrCat(info.name, state.suffix));
    states.push_back(g.State(names.back(), state.dtype, info.type.shape));
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
  } else if (const Nesterov* nesterov = std::get_if<Nesterov>(&optimizer)) {
    const MomentumResults results =
        NesterovUpdate(param, states[0], gradient, lr, scale,
                       nesterov->momentum, nesterov->decay);
    updated = {results.w, results.velocity};
  } else if (const RmsProp* rms = std::get_if<RmsProp>(&optimizer)) {
    const MeanSquareResults results =
        RmsPropUpdate(param, states[0], gradient, lr, scale, rms->alpha,
                      rms->eps, rms->decay);
    updated = {results.w, results.v};
  } else if (const Adagrad* adagrad = std::get_if<Adagrad>(&optimizer)) {
    const MeanSquareResults results = AdagradUpdate(
        param, states[0], gradient, lr, scale, adagrad->eps, adagrad->decay);
    updated = {results.w, results.v};
  } else if (const Adam* adam = std::get_if<Adam>(&optimizer)) {
    const AdamWResults results =
        AdamUpdate(param, states[0], states[1], gradient, lr, step, scale,
                   adam->beta1, adam->beta2, adam->eps, adam->decay);
    updated = {results.w, results.m, results.v};
  } else if (const AdamW* adamw = std::get_if<AdamW>(&optimizer);
             adamw != nullptr && HasSplitMaster(info.type.dtype)) {
    const AdamWSplitResults results = AdamWSplitUpdate(
        param, states[0], states[1], states[2], gradient, lr, step, scale,
        adamw->beta1, adamw->beta2, adamw->eps, adamw->decay);
    updated = {results.w, results.delta, results.m, results.v};
  } else if (adamw != nullptr) {
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
