#include "autodiff/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <variant>

#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/element_groups.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"

namespace stowage {

namespace {

// Overloads for std::visit.
template <typename... Cases>
struct Overload : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>
Overload(Cases...) -> Overload<Cases...>;

Status CheckSetting(std::string_view name, double value, bool holds,
                    std::string_view expected) {
  if (holds && std::isfinite(value)) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[optimizer] ", name, " is ", value, "; expected ", expected)};
}
Status CheckFraction(std::string_view name, double value) {
  return CheckSetting(name, value, value >= 0 && value < 1,
                      "at least 0 and below 1");
}
Status CheckDecay(double decay) {
  return CheckSetting("decay", decay, decay >= 0,
                      "a finite number of at least 0");
}

// A state of a param: the suffix of its name, and its type.
struct State {
  std::string_view suffix;
  TensorType type;
};
using States = std::vector<State>;

// The format of a param's weight.
enum class Weight { kWhole, kSplit };  // kSplit: bf16 and a delta

// The formats that AdamW and momentum support for a param of that type.
Weight WeightOf(const AdamW&, DType param) {
  return param == DType::kBF16 ? Weight::kSplit : Weight::kWhole;
}
Weight WeightOf(const Momentum& momentum, DType param) {
  const bool splits = momentum.bf16_velocity && param == DType::kBF16;
  return splits ? Weight::kSplit : Weight::kWhole;
}
// `elements`: of the whole param.
Moments MomentsOf(const AdamW& adamw, int64_t elements) {
  const bool is_small = elements < kMinElementsIn8Bit;
  const bool is_8bit = adamw.moments == Moments::kDynamic8 ||
                       adamw.moments == Moments::kCompanded8;
  return is_8bit && is_small ? Moments::kFull : adamw.moments;
}

States StatesOf(const AdamW& adamw, const TensorType& param, int64_t elements) {
  const DType dtype = param.dtype;
  const Shape& shape = param.shape;
  States states;
  const bool splits = WeightOf(adamw, dtype) == Weight::kSplit;
  if (splits) {
    const DType rest = adamw.rest_bits == 8 ? DType::kU8 : DType::kI16;
    states.push_back({".delta", {rest, shape}});
  }
  const auto add_moments = [&](DType moments) {
    states.push_back({".m", {moments, shape}});
    states.push_back({".v", {moments, shape}});
  };
  switch (MomentsOf(adamw, elements)) {
    case Moments::kFull:
      add_moments(splits ? DType::kF32 : dtype);
      break;
    case Moments::kBf16:
      add_moments(DType::kBF16);
      break;
    case Moments::kDynamic8:
    case Moments::kCompanded8:
      add_moments(DType::kU8);
      states.push_back({".m_scale", {DType::kF32, MomentScales(shape)}});
      states.push_back({".v_scale", {DType::kF32, MomentScales(shape)}});
      break;
  }
  return states;
}

States StatesOf(const Momentum& momentum, const TensorType& param) {
  States states;
  if (WeightOf(momentum, param.dtype) == Weight::kSplit) {
    states.push_back({".delta", {DType::kI16, param.shape}});
  }
  const DType velocity = momentum.bf16_velocity ? DType::kBF16 : param.dtype;
  states.push_back({".velocity", {velocity, param.shape}});
  return states;
}

// The states of a param of type `param`, or of a block of a param of `elements` elements, in
// the order of the update's operands.
States StatesOf(const Optimizer& optimizer, const TensorType& param,
                int64_t elements) {
  return std::visit(
      Overload{
          [](const Sgd&) { return States{}; },
          [&](const Momentum& momentum) { return StatesOf(momentum, param); },
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
          [&](const AdamW& adamw) { return StatesOf(adamw, param, elements); },
          // Rules declare their states themselves.
          [](const auto&) { return States{}; }},
      optimizer);
}

// The suffix of the state that completes a param to f32.
constexpr std::string_view kRest = ".rest";

// The type in which an optimizer updates a param of `type`.
TensorType ComputedType(const Optimizer& optimizer, const TensorType& type) {
  return UpdatesInF32(optimizer, type.dtype)
             ? TensorType{DType::kF32, type.shape}
             : type;
}

// Whether the optimizer's op lacks one of its settings.
bool HasMoreThanOp(const Sgd&) { return false; }
bool HasMoreThanOp(const Momentum& momentum) { return momentum.dampening != 0; }
bool HasMoreThanOp(const Nesterov&) { return false; }
bool HasMoreThanOp(const RmsProp& rms) {
  return rms.momentum != 0 || rms.centered;
}
bool HasMoreThanOp(const Adagrad& adagrad) {
  return adagrad.lr_decay != 0 || adagrad.initial != 0;
}
bool HasMoreThanOp(const Adam& adam) { return adam.amsgrad; }
bool HasMoreThanOp(const AdamW& adamw) { return adamw.amsgrad; }

// The rule by which an optimizer updates a param, if it is composed of ops: because it has no op,
// or because its op has not all of its settings, or, if `is_general`, not those of inputs.
std::optional<UpdateRule> AsRule(const Optimizer& optimizer,
                                 bool is_general = false) {
  return std::visit(
      [&](const auto& kind) -> std::optional<UpdateRule> {
        if constexpr (std::is_same_v<decltype(kind), const UpdateRule&>) {
          return kind;
        } else if constexpr (requires { HasMoreThanOp(kind); }) {
          if (!is_general && !HasMoreThanOp(kind)) return std::nullopt;
          return RuleOf(kind);
        } else {
          return RuleOf(kind);
        }
      },
      optimizer);
}

// Whether it has low-precision states.
bool KeepsCompactStates(const Optimizer& optimizer) {
  const auto* const adamw = std::get_if<AdamW>(&optimizer);
  return ReadsSeed(optimizer) ||
         (adamw != nullptr && adamw->moments != Moments::kFull);
}

// Whether low-precision states support the param; an error of the builder if not.
bool TakesCompactStates(const Optimizer& optimizer, Value param) {
  const DType dtype = param.dtype();
  if (dtype == DType::kF32 || dtype == DType::kBF16) return true;
  GraphBuilder& g = *param.builder();
  g.Fail(Error{
      ErrorCode::kInvalidArgument,
      StrCat("[optimizer] ", OptimizerName(optimizer),
             " updates params in f32 or bf16; ", Quoted(g.info(param).name),
             " is ", param.type().ToString())});
  return false;
}

// The random numbers of a block's roundings, which differ between params.
RoundingNumbers NumbersOf(const ParamBlock& which) {
  Fnv1a hash;
  hash.Update(which.param);
  return {static_cast<int64_t>(hash.digest() >> 32), which.first};
}

// These return the param's new content, and then the states'.

std::vector<Value> EmitMomentum(const Momentum& momentum,
                                const ParamBlock& which, Value param,
                                const std::vector<Value>& states, Value g,
                                const UpdateInputs& in) {
  if (!momentum.bf16_velocity) {
    const MomentumResults results =
        MomentumUpdate(param, states[0], g, in.lr, in.scale, momentum.momentum,
                       momentum.decay);
    return {results.w, results.velocity};
  }
  const RoundingNumbers numbers = NumbersOf(which);
  if (WeightOf(momentum, param.dtype()) == Weight::kSplit) {
    const MomentumSplitResults results = MomentumBf16SplitUpdate(
        param, states[0], states[1], g, in.lr, in.step, in.seed, in.scale,
        momentum.momentum, momentum.decay, numbers);
    return {results.w, results.delta, results.velocity};
  }
  const MomentumResults results =
      MomentumBf16Update(param, states[0], g, in.lr, in.step, in.seed, in.scale,
                         momentum.momentum, momentum.decay, numbers);
  return {results.w, results.velocity};
}

std::vector<Value> EmitAdamW(const AdamW& adamw, const ParamBlock& which,
                             Value param, const std::vector<Value>& states,
                             Value g, const UpdateInputs& in) {
  const double beta1 = adamw.beta1, beta2 = adamw.beta2;
  const double eps = adamw.eps, decay = adamw.decay;
  const AdamWOptions options = {beta1, beta2, eps, decay};
  const bool splits = WeightOf(adamw, param.dtype()) == Weight::kSplit;
  const Moments kept = MomentsOf(adamw, which.elements);
  if (kept == Moments::kFull && splits) {
    const AdamWSplitResults results =
        AdamWSplitUpdate(param, states[0], states[1], states[2], g, in.lr,
                         in.step, in.scale, beta1, beta2, eps, decay);
    return {results.w, results.delta, results.m, results.v};
  }
  if (kept == Moments::kFull) {
    const AdamWResults results =
        AdamWUpdate(param, states[0], states[1], g, in.lr, in.step, in.scale,
                    beta1, beta2, eps, decay);
    return {results.w, results.m, results.v};
  }
  if (kept == Moments::kBf16 && splits) {
    const AdamWSplitResults results = AdamWBf16SplitUpdate(
        param, states[0], states[1], states[2], g, in.lr, in.step, in.seed,
        in.scale, options, NumbersOf(which));
    return {results.w, results.delta, results.m, results.v};
  }
  if (kept == Moments::kBf16) {
    const AdamWResults results =
        AdamWBf16Update(param, states[0], states[1], g, in.lr, in.step, in.seed,
                        in.scale, options, NumbersOf(which));
    return {results.w, results.m, results.v};
  }
  const MomentCode code = kept == Moments::kCompanded8 ? MomentCode::kCompanded
                                                       : MomentCode::kDynamic;
  const size_t first = splits ? 1 : 0;
  const Moments8Bit coded = {states[first], states[first + 1],
                             states[first + 2], states[first + 3]};
  const AdamW8BitResults results =
      splits ? AdamW8BitSplitUpdate(param, states[0], coded, g, in.lr, in.step,
                                    in.scale, options, code)
             : AdamW8BitUpdate(param, coded, g, in.lr, in.step, in.scale,
                               options, code);
  std::vector<Value> updated = {results.w};
  if (splits) updated.push_back(results.delta);
  const auto& [m, v, m_scale, v_scale] = results.moments;
  updated.insert(updated.end(), {m, v, m_scale, v_scale});
  return updated;
}

void EmitRule(const UpdateRule& rule, Value param, Value gradient,
              const UpdateInputs& inputs) {
  const bool splits = rule.splits_bf16 && param.dtype() == DType::kBF16;
  GraphBuilder& g = *param.builder();
  const std::string name = g.info(param).name;  // a copy: the graph grows
  const auto state = [&](std::string_view suffix, DType dtype) {
    return g.State(StrCat(name, suffix), dtype, param.shape());
  };
  if (splits) gradient = Cast(gradient, DType::kF32);
  if (inputs.scale.builder() != nullptr) {
    gradient = EmitScaled(gradient, inputs.scale);
  }
  ParamUpdate update =
      splits ? ParamUpdate(param, state(".delta", DType::kI16), gradient)
             : ParamUpdate(param, gradient);
  update.lr = inputs.lr;
  update.step = inputs.step;
  update.decay = rule.decay;
  update.momentum = inputs.momentum;
  update.decay_input = inputs.decay;
  update.scalars = inputs.scalars;
  update.good = inputs.good;
  EmitUpdate(rule, update);
}

// Names the results of an update in the step graph, if the names are free.
void NameNew(Value updated, std::string_view leaf) {
  if (!updated.ok()) return;
  GraphBuilder& g = *updated.builder();
  const std::string name = StrCat("new:", leaf);
  if (!g.Find(name)) g.Name(name, updated);
}

// Emits the op that updates `param`, or its f32 number, with states called "<name>.m" and so
// on, and returns the new content.
Value EmitOp(const Optimizer& optimizer, const ParamBlock& which,
             const std::string& name, Value param, Value gradient,
             const UpdateInputs& inputs) {
  GraphBuilder& g = *param.builder();
  std::vector<std::string> names;
  std::vector<Value> states;
  for (const State& state : StatesOf(optimizer, param.type(), which.elements)) {
    names.push_back(StrCat(name, state.suffix));
    states.push_back(g.State(names.back(), state.type.dtype, state.type.shape));
  }
  const Value lr = inputs.lr, step = inputs.step, scale = inputs.scale;
  std::vector<Value> updated;  // the param, then the states
  if (const Sgd* sgd = std::get_if<Sgd>(&optimizer)) {
    updated = {SgdUpdate(param, gradient, lr, scale, sgd->decay)};
  } else if (const Momentum* momentum = std::get_if<Momentum>(&optimizer)) {
    updated = EmitMomentum(*momentum, which, param, states, gradient, inputs);
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
  } else if (const AdamW* adamw = std::get_if<AdamW>(&optimizer)) {
    updated = EmitAdamW(*adamw, which, param, states, gradient, inputs);
  }
  for (size_t i = 0; i < names.size(); ++i) NameNew(updated[i + 1], names[i]);
  return updated[0];
}

// The update of an f16 param as the f32 sum of it and its rest, which overwrites the rest
// meanwhile. A skipped update changes nothing, because the sum rounds to the same param.
void EmitInF32(const Optimizer& optimizer, const ParamBlock& which, Value param,
               Value gradient, const UpdateInputs& inputs) {
  GraphBuilder& g = *param.builder();
  const std::string name = g.info(param).name;  // a copy: the graph grows
  const Shape shape = param.shape();
  const Value rest = g.State(StrCat(name, kRest), DType::kF32, shape);
  const Value number = Assign(rest, Add(Cast(param, DType::kF32), rest));
  const Value updated = EmitOp(optimizer, which, name, number,
                               Cast(gradient, DType::kF32), inputs);
  const Value nearest = Cast(updated, param.dtype());
  NameNew(Assign(updated, Sub(updated, Cast(nearest, DType::kF32))),
          StrCat(name, kRest));
  NameNew(Assign(param, nearest), name);
}

}  // namespace

const std::vector<NamedOptimizer>& NamedOptimizers() {
  static const std::vector<NamedOptimizer> kAll = {
      {"sgd", Sgd{}},
      {"momentum", Momentum{}},
      {"momentum-bf16", Momentum{.bf16_velocity = true}},
      {"nesterov", Nesterov{}},
      {"rmsprop", RmsProp{}},
      {"adagrad", Adagrad{}},
      {"adam", Adam{}},
      {"adamw", AdamW{}},
      {"adamw-bf16", AdamW{.moments = Moments::kBf16}},
      {"adamw8bit", AdamW{.moments = Moments::kDynamic8, .rest_bits = 8}},
      {"flash-adamw", AdamW{.moments = Moments::kCompanded8, .rest_bits = 8}},
      {"nadam", NAdam{}},
      {"radam", RAdam{}},
      {"adamax", Adamax{}},
      {"adadelta", Adadelta{}},
      {"asgd", Asgd{}},
      {"rprop", Rprop{}},
      {"lion", Lion{}},
      {"adafactor", Adafactor{}},
      {"muon", Muon{}}};
  return kAll;
}

std::string_view OptimizerName(const Optimizer& optimizer) {
  if (const auto* rule = std::get_if<UpdateRule>(&optimizer)) return rule->name;
  const auto keeps_the_same = [&](const Optimizer& other) {
    if (other.index() != optimizer.index()) return false;
    if (const auto* adamw = std::get_if<AdamW>(&optimizer)) {
      return std::get<AdamW>(other).moments == adamw->moments;
    }
    if (const auto* momentum = std::get_if<Momentum>(&optimizer)) {
      return std::get<Momentum>(other).bf16_velocity == momentum->bf16_velocity;
    }
    return true;
  };
  const auto& all = NamedOptimizers();
  return std::ranges::find_if(all, keeps_the_same, &NamedOptimizer::optimizer)
      ->name;
}

std::string OptimizerChoices() {
  std::string choices;
  const auto& all = NamedOptimizers();
  for (const NamedOptimizer& named : all) {
    const bool is_last = &named == &all.back();
    choices += StrCat(choices.empty() ? ""
                      : is_last       ? " or "
                                      : ", ",
                      named.name);
  }
  return choices;
}

Result<Optimizer> ParseOptimizer(std::string_view name) {
  for (const auto& [known, optimizer] : NamedOptimizers()) {
    if (name == known) return optimizer;
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[optimizer] there is no optimizer ", Quoted(name),
                      "; expected ", OptimizerChoices())};
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
    return CheckSetting("eps", eps, eps > 0, "a finite number above 0");
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
  const auto check_sum = [](std::string_view name, double value) {
    return CheckSetting(name, value, value >= 0,
                        "a finite number of at least 0");
  };
  return std::visit(
      Overload{
          [](const Sgd& sgd) { return CheckDecay(sgd.decay); },
          [&](const Momentum& momentum) -> Status {
            const bool dampens = !momentum.bf16_velocity;
            STOWAGE_RETURN_IF_ERROR(CheckSetting(
                "dampening", momentum.dampening,
                dampens || momentum.dampening == 0,
                dampens ? "a finite number" : "0 with a velocity in bf16"));
            return check_momentum(momentum);
          },
          [&](const Nesterov& nesterov) { return check_momentum(nesterov); },
          [&](const RmsProp& rms) -> Status {
            STOWAGE_RETURN_IF_ERROR(CheckFraction("alpha", rms.alpha));
            STOWAGE_RETURN_IF_ERROR(check_eps(rms.eps));
            return check_momentum(rms);
          },
          [&](const Adagrad& adagrad) -> Status {
            STOWAGE_RETURN_IF_ERROR(check_eps(adagrad.eps));
            STOWAGE_RETURN_IF_ERROR(check_sum("lr_decay", adagrad.lr_decay));
            STOWAGE_RETURN_IF_ERROR(check_sum("initial", adagrad.initial));
            return CheckDecay(adagrad.decay);
          },
          [&](const Adam& adam) { return check_adam(adam); },
          [&](const AdamW& adamw) -> Status {
            STOWAGE_RETURN_IF_ERROR(CheckSetting(
                "rest_bits", adamw.rest_bits,
                adamw.rest_bits == 8 || adamw.rest_bits == 16, "8 or 16"));
            const bool is_whole =
                adamw.moments == Moments::kFull && adamw.rest_bits == 16;
            STOWAGE_RETURN_IF_ERROR(CheckSetting(
                "amsgrad", adamw.amsgrad ? 1 : 0, !adamw.amsgrad || is_whole,
                "0 with moments of fewer bits, or 8 rest bits"));
            return check_adam(adamw);
          },
          [&](const NAdam& nadam) -> Status {
            STOWAGE_RETURN_IF_ERROR(
                check_sum("momentum_decay", nadam.momentum_decay));
            return check_adam(nadam);
          },
          [&](const RAdam& radam) { return check_adam(radam); },
          [&](const Adamax& adamax) { return check_adam(adamax); },
          [&](const Adadelta& adadelta) -> Status {
            STOWAGE_RETURN_IF_ERROR(CheckFraction("rho", adadelta.rho));
            STOWAGE_RETURN_IF_ERROR(check_eps(adadelta.eps));
            return CheckDecay(adadelta.decay);
          },
          [&](const Asgd& asgd) -> Status {
            STOWAGE_RETURN_IF_ERROR(check_sum("lambd", asgd.lambd));
            STOWAGE_RETURN_IF_ERROR(check_sum("alpha", asgd.alpha));
            STOWAGE_RETURN_IF_ERROR(check_sum("t0", asgd.t0));
            return CheckDecay(asgd.decay);
          },
          [&](const Rprop& rprop) -> Status {
            STOWAGE_RETURN_IF_ERROR(
                CheckSetting("eta_minus", rprop.eta_minus,
                             rprop.eta_minus > 0 && rprop.eta_minus < 1,
                             "above 0 and below 1"));
            STOWAGE_RETURN_IF_ERROR(CheckSetting("eta_plus", rprop.eta_plus,
                                                 rprop.eta_plus > 1,
                                                 "a finite number above 1"));
            STOWAGE_RETURN_IF_ERROR(check_sum("min_step", rprop.min_step));
            STOWAGE_RETURN_IF_ERROR(CheckSetting(
                "max_step", rprop.max_step, rprop.max_step >= rprop.min_step,
                "a finite number of at least min_step"));
            return CheckDecay(rprop.decay);
          },
          [](const Lion& lion) -> Status {
            STOWAGE_RETURN_IF_ERROR(CheckFraction("beta1", lion.beta1));
            STOWAGE_RETURN_IF_ERROR(CheckFraction("beta2", lion.beta2));
            return CheckDecay(lion.decay);
          },
          [&](const Adafactor& adafactor) -> Status {
            const double beta2_decay = adafactor.beta2_decay;
            STOWAGE_RETURN_IF_ERROR(CheckSetting("beta2_decay", beta2_decay,
                                                 beta2_decay < 0,
                                                 "a finite number below 0"));
            STOWAGE_RETURN_IF_ERROR(check_sum("eps1", adafactor.eps1));
            STOWAGE_RETURN_IF_ERROR(check_eps(adafactor.eps2));
            STOWAGE_RETURN_IF_ERROR(CheckSetting("clip", adafactor.clip,
                                                 adafactor.clip > 0,
                                                 "a finite number above 0"));
            return CheckDecay(adafactor.decay);
          },
          [&](const Muon& muon) -> Status {
            STOWAGE_RETURN_IF_ERROR(CheckSetting(
                "iterations", muon.iterations,
                muon.iterations >= 1 && muon.iterations <= 100, "1 to 100"));
            STOWAGE_RETURN_IF_ERROR(CheckFraction("momentum", muon.momentum));
            return check_adam(muon);
          },
          [](const UpdateRule& rule) { return CheckUpdateRule(rule); }},
      optimizer);
}

std::vector<std::string> StateNames(const Optimizer& optimizer,
                                    std::string_view name,
                                    const TensorType& type) {
  std::vector<std::string> names;
  if (UpdatesInF32(optimizer, type.dtype)) names.push_back(StrCat(name, kRest));
  for (const State& state : StatesOf(optimizer, ComputedType(optimizer, type),
                                     type.shape.num_elements())) {
    names.push_back(StrCat(name, state.suffix));
  }
  return names;
}

bool ReadsSeed(const Optimizer& optimizer) {
  const auto* const adamw = std::get_if<AdamW>(&optimizer);
  const auto* const momentum = std::get_if<Momentum>(&optimizer);
  return (adamw != nullptr && adamw->moments == Moments::kBf16) ||
         (momentum != nullptr && momentum->bf16_velocity);
}

bool UpdatesInF32(const Optimizer& optimizer, DType param) {
  if (param != DType::kF16) return false;
  const auto* const adamw = std::get_if<AdamW>(&optimizer);
  return std::holds_alternative<Adam>(optimizer) ||
         std::holds_alternative<RmsProp>(optimizer) ||
         std::holds_alternative<Adagrad>(optimizer) ||
         (adamw != nullptr && adamw->moments == Moments::kFull);
}

bool UpdatesByBlocks(const Optimizer& optimizer) {
  return !std::holds_alternative<Adafactor>(optimizer) &&
         !std::holds_alternative<Muon>(optimizer) &&
         !std::holds_alternative<NAdam>(optimizer) &&
         !std::holds_alternative<Asgd>(optimizer) &&
         !std::holds_alternative<UpdateRule>(optimizer);
}

void EmitUpdate(const Optimizer& optimizer, const ParamBlock& which,
                Value param, Value gradient, const UpdateInputs& inputs) {
  if (!param.ok()) return;
  GraphBuilder& g = *param.builder();
  if (const auto* muon = std::get_if<Muon>(&optimizer)) {
    if (!TakesMatrix(param)) {
      return EmitUpdate(AdamW{.beta1 = muon->beta1,
                              .beta2 = muon->beta2,
                              .eps = muon->eps,
                              .decay = muon->decay},
                        which, param, gradient, inputs);
    }
  }
  const bool is_general = inputs.momentum.ok() || inputs.decay.ok() ||
                          inputs.lr.dtype() == DType::kF64;
  if (const auto rule = AsRule(optimizer, is_general)) {
    EmitRule(*rule, param, gradient, inputs);
    return;
  }
  if (KeepsCompactStates(optimizer) && !TakesCompactStates(optimizer, param)) {
    return;
  }
  if (UpdatesInF32(optimizer, param.dtype())) {
    EmitInF32(optimizer, which, param, gradient, inputs);
    return;
  }
  const std::string name = g.info(param).name;  // a copy: the graph grows
  NameNew(EmitOp(optimizer, which, name, param, gradient, inputs), name);
}

Value EmitScaled(Value gradient, Value scale) {
  if (!gradient.ok()) return gradient;
  const DType dtype = gradient.dtype();
  const DType wide = dtype == DType::kF64 ? dtype : DType::kF32;
  return Cast(Mul(Cast(gradient, wide), Cast(scale, wide)), dtype);
}

Value EmitClipScale(Value norm, double max_norm) {
  if (!norm.ok()) return norm;
  GraphBuilder& g = *norm.builder();
  const Value limit = Fill(g, max_norm, DType::kF32, {});
  const Value one = Fill(g, 1, DType::kF32, {});
  return Minimum(Div(limit, AddScalar(norm, 1e-6)), one);
}

}  // namespace stowage
