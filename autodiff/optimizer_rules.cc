#include "autodiff/optimizer_rules.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "autodiff/optimizer.h"
#include "autodiff/step_scalars.h"
#include "ir/ops.h"

namespace stowage {

namespace {

// One param, with arithmetic of tensors and scalars of the step.
class RuleUpdate {
 public:
  explicit RuleUpdate(ParamUpdate* u)
      : lr(u->scalars->Of(u->lr)),
        step(u->scalars->Of(u->step)),
        decay(u->decay_input.ok() ? u->scalars->Of(u->decay_input)
                                  : StepScalar(u->decay)),
        u_(*u) {}

  const StepScalar lr, step, decay;

  Value param() const { return u_.param; }
  DType dtype() const { return u_.param.dtype(); }
  StepScalars& scalars() const { return *u_.scalars; }

  // The input of the step that replaces the momentum or beta1 `own`, if there is one.
  StepScalar MomentumOr(double own) const {
    return u_.momentum.ok() ? scalars().Of(u_.momentum) : StepScalar(own);
  }
  Value As(StepScalar x) const { return scalars().As(x, dtype()); }
  Value Times(Value x, StepScalar factor) const {
    return factor.Is(1) ? x : Mul(x, As(factor));
  }
  Value Plus(Value x, StepScalar addend) const {
    return addend.Is(0) ? x : Add(x, As(addend));
  }

  // The gradient, and unless the decay is decoupled, decay times the param.
  Value Gradient(bool is_decoupled = false) const {
    if (is_decoupled || decay.Is(0)) return u_.gradient;
    return Add(u_.gradient, Times(u_.param, decay));
  }

  Value State(std::string_view suffix, Init init = Init::Zeros()) const {
    return u_.State(suffix, init);
  }
  Value ScalarState(std::string_view suffix) const {
    return u_.State(suffix, {scalars().dtype(), {}});
  }
  Value Set(Value target, Value content) const {
    return u_.Set(target, content);
  }
  // state += weight (x - state)
  Value Lerp(Value state, Value x, StepScalar weight) const {
    return u_.Lerp(state, x, As(weight));
  }
  // w -= change, and if the decay is decoupled, lr decay w.
  void Subtract(Value change, bool is_decoupled = false) const {
    const bool decays = is_decoupled && !decay.Is(0);
    const Value w = decays ? Times(u_.param, 1 - lr * decay) : u_.param;
    u_.Set(u_.param, Sub(w, change));
  }

 private:
  ParamUpdate& u_;
};

template <typename F>
UpdateRule MakeRule(std::string name, double learning_rate, double decay,
                    F update) {
  return {.name = name,
          .update =
              [name, update = std::move(update)](ParamUpdate& u) {
                if (UpdatesType(u, name)) update(RuleUpdate(&u));
              },
          .learning_rate = learning_rate,
          .decay = decay,
          .splits_bf16 = true};
}

// The moments m and v of Adam after a step.
std::pair<Value, Value> MoveMoments(const RuleUpdate& u, Value d,
                                    StepScalar beta1, double beta2) {
  const Value m = u.Lerp(u.State("m"), d, 1 - beta1);
  return {m, u.Lerp(u.State("v"), Square(d), 1 - beta2)};
}

// sqrt(v / (1 - beta2^t)) + eps
Value CorrectedRoot(const RuleUpdate& u, Value v, double beta2, double eps) {
  const StepScalar correction = 1 / OneMinusPower(beta2, u.step);
  return u.Plus(Sqrt(u.Times(v, correction)), eps);
}

// velocity = momentum velocity + taken d. Returns d + momentum velocity if `is_nesterov`, else
// the velocity. As in PyTorch, a step with a momentum input of 0 returns d and leaves the
// velocity as it is.
Value MoveVelocity(const RuleUpdate& u, StepScalar momentum, Value d,
                   StepScalar taken, bool is_nesterov) {
  const Value velocity = u.State("velocity");
  StepScalar kept = momentum;
  std::optional<Value> rests;
  if (!momentum.is_number()) {
    rests = u.scalars().IsEqual(momentum, 0);
    kept = u.scalars().Choose(*rests, 1, momentum);
    taken = u.scalars().Choose(*rests, 0, taken);
  }
  const Value moved =
      u.Set(velocity, Add(u.Times(velocity, kept), u.Times(d, taken)));
  if (is_nesterov) return Add(d, u.Times(moved, momentum));
  if (!rests) return moved;
  return Where(BroadcastTo(*rests, moved.shape()), d, moved);
}

// Momentum and Nesterov. As in PyTorch, the first velocity is the gradient, whatever the
// dampening.
void UpdateByMomentum(const RuleUpdate& u, double own, double dampening,
                      bool is_nesterov) {
  StepScalar taken = 1 - dampening;
  if (!taken.Is(1)) {
    const Value is_first = u.scalars().IsEqual(u.step, 1);
    taken = u.scalars().Choose(is_first, 1, taken);
  }
  const Value change =
      MoveVelocity(u, u.MomentumOr(own), u.Gradient(), taken, is_nesterov);
  u.Subtract(u.Times(change, u.lr));
}

// Adam and AdamW.
template <typename AdamOrAdamW>
void UpdateByAdam(const AdamOrAdamW& adam, bool is_decoupled,
                  const RuleUpdate& u) {
  const StepScalar beta1 = u.MomentumOr(adam.beta1);
  auto [m, v] = MoveMoments(u, u.Gradient(is_decoupled), beta1, adam.beta2);
  if (adam.amsgrad) {
    const Value largest = u.State("v_max");
    v = u.Set(largest, Maximum(largest, v));
  }
  const StepScalar rate = u.lr / OneMinusPower(beta1, u.step);
  const Value root = CorrectedRoot(u, v, adam.beta2, adam.eps);
  u.Subtract(u.Times(Div(m, root), rate), is_decoupled);
}

void UpdateNAdam(const NAdam& nadam, const RuleUpdate& u) {
  const StepScalar beta1 = u.MomentumOr(nadam.beta1);
  const Value d = u.Gradient(nadam.is_decoupled);
  const auto mu_at = [&](StepScalar step) {
    return beta1 * (1 - 0.5 * Power(0.96, step * nadam.momentum_decay));
  };
  const StepScalar mu = mu_at(u.step), next = mu_at(u.step + 1);
  const Value state = u.ScalarState("mu_product");
  const StepScalar before = u.scalars().Choose(u.scalars().IsEqual(u.step, 1),
                                               1, u.scalars().Of(state));
  const StepScalar product = before * mu;
  const auto [m, v] = MoveMoments(u, d, beta1, nadam.beta2);
  const Value root = CorrectedRoot(u, v, nadam.beta2, nadam.eps);
  const Value change = Add(u.Times(d, u.lr * (1 - mu) / (1 - product)),
                           u.Times(m, u.lr * next / (1 - product * next)));
  u.Set(state, u.scalars().As(product, state.dtype()));
  u.Subtract(Div(change, root), nadam.is_decoupled);
}

// 2 / (1 - beta) - 1 - 2 t beta^t / (1 - beta^t), the length r of RAdam, as
// 2 (s - t q) / (q s) + 2 t - 1 for q = 1 - beta and s = 1 - beta^t. The difference s - t q
// cancels for small t q, where the binomial series of s has it to 2^-24; in f32, r of the first
// steps could else lie on the other side of 5.
StepScalar RectifiedLength(const RuleUpdate& u, double beta, StepScalar s) {
  const StepScalar t = u.step;
  const double q = 1 - beta;
  constexpr double kLimit = 0.125;
  constexpr int kTerms = 8;
  StepScalar term = -q * t, series = 0;  // the terms of -(1 - q)^t
  for (int k = 2; k <= kTerms; ++k) {
    term = term * (t - (k - 1)) * (-q / k);
    series = series - term;
  }
  const StepScalar difference =
      u.scalars().Choose(u.scalars().IsLess(q * t, kLimit), series, s - q * t);
  return 2 * difference / (q * s) + 2 * t - 1;
}

void UpdateRAdam(const RAdam& radam, const RuleUpdate& u) {
  const StepScalar beta1 = u.MomentumOr(radam.beta1);
  const Value d = u.Gradient(radam.is_decoupled);
  const auto [m, v] = MoveMoments(u, d, beta1, radam.beta2);
  const StepScalar rate = u.lr / OneMinusPower(beta1, u.step);
  const double limit = 2 / (1 - radam.beta2) - 1;
  if (limit <= 5) return u.Subtract(u.Times(m, rate), radam.is_decoupled);
  const StepScalar kept = OneMinusPower(radam.beta2, u.step);
  const StepScalar length = RectifiedLength(u, radam.beta2, kept);
  const Value adapts = u.scalars().IsLess(5, length);
  const double scale = limit / ((limit - 4) * (limit - 2));
  const StepScalar rectified =
      Sqrt(Max((length - 4) * (length - 2) * scale / length, 0) * kept);
  const StepScalar factor = u.scalars().Choose(adapts, rate * rectified, rate);
  const Value root = u.Plus(Sqrt(v), radam.eps);
  const Value divisor = Where(BroadcastTo(adapts, root.shape()), root, u.As(1));
  u.Subtract(u.Times(Div(m, divisor), factor), radam.is_decoupled);
}

void UpdateAdamax(const Adamax& adamax, const RuleUpdate& u) {
  const StepScalar beta1 = u.MomentumOr(adamax.beta1);
  const Value d = u.Gradient();
  const Value largest = u.State("u");
  const Value m = u.Lerp(u.State("m"), d, 1 - beta1);
  const Value moved = u.Set(largest, Maximum(u.Times(largest, adamax.beta2),
                                             u.Plus(Abs(d), adamax.eps)));
  const StepScalar rate = u.lr / OneMinusPower(beta1, u.step);
  u.Subtract(u.Times(Div(m, moved), rate));
}

void UpdateAdadelta(const Adadelta& adadelta, const RuleUpdate& u) {
  const Value d = u.Gradient();
  const Value v = u.Lerp(u.State("v"), Square(d), 1 - adadelta.rho);
  const Value state = u.State("u");
  const Value ratio = Div(u.Plus(state, adadelta.eps), u.Plus(v, adadelta.eps));
  const Value change = Mul(Sqrt(ratio), d);
  u.Lerp(state, Square(change), 1 - adadelta.rho);
  u.Subtract(u.Times(change, u.lr));
}

void UpdateAsgd(const Asgd& asgd, const RuleUpdate& u) {
  const Value state = u.ScalarState("eta");
  const StepScalar eta = u.scalars().Choose(u.scalars().IsEqual(u.step, 1),
                                            u.lr, u.scalars().Of(state));
  const Value moved =
      Sub(u.Times(u.param(), 1 - asgd.lambd * eta), u.Times(u.Gradient(), eta));
  u.Lerp(u.State("ax"), moved, 1 / Max(1, u.step - (1 + asgd.t0)));
  u.Set(u.param(), moved);
  const StepScalar next =
      u.lr / Power(1 + asgd.lambd * u.lr * u.step, asgd.alpha);
  u.Set(state, u.scalars().As(next, state.dtype()));
}

void UpdateRprop(const Rprop& rprop, const RuleUpdate& u) {
  const Value d = u.Gradient();
  const Value zero = u.As(0);
  const Value prev = u.State("prev"), size = u.State("step_size");
  const Value agreement = Mul(d, prev);
  const Value turns = Less(agreement, zero);
  const Value factor =
      Where(turns, u.As(rprop.eta_minus),
            Where(Greater(agreement, zero), u.As(rprop.eta_plus), u.As(1)));
  const Value is_first = u.scalars().IsEqual(u.step, 1);
  const Value before =
      Where(BroadcastTo(is_first, size.shape()), u.As(u.lr), size);
  const Value moved =
      u.Set(size, Clamp(Mul(before, factor), rprop.min_step, rprop.max_step));
  const Value taken = u.Set(prev, Where(turns, zero, d));
  u.Subtract(Mul(Sign(taken), moved));
}

void UpdateRmsProp(const RmsProp& rms_prop, const RuleUpdate& u) {
  const Value d = u.Gradient();
  const StepScalar weight = 1 - rms_prop.alpha;
  Value v = u.Lerp(u.State("v"), Square(d), weight);
  if (rms_prop.centered) {
    // The difference is a variance, not negative but for its rounding.
    const Value mean = u.Lerp(u.State("mean"), d, weight);
    v = Maximum(Sub(v, Square(mean)), u.As(0));
  }
  Value change = Div(d, u.Plus(Sqrt(v), rms_prop.eps));
  const StepScalar momentum = u.MomentumOr(rms_prop.momentum);
  if (!momentum.Is(0)) {
    change = MoveVelocity(u, momentum, change, 1, /*is_nesterov=*/false);
  }
  u.Subtract(u.Times(change, u.lr));
}

void UpdateAdagrad(const Adagrad& adagrad, const RuleUpdate& u) {
  const Value d = u.Gradient();
  const Value state = u.State("v", Init::Constant(adagrad.initial));
  const Value v = u.Set(state, Add(state, Square(d)));
  const StepScalar rate = u.lr / (1 + (u.step - 1) * adagrad.lr_decay);
  u.Subtract(u.Times(Div(d, u.Plus(Sqrt(v), adagrad.eps)), rate));
}

}  // namespace

UpdateRule RuleOf(const NAdam& nadam) {
  return MakeRule("nadam", 2e-3, nadam.decay,
                  [nadam](const RuleUpdate& u) { UpdateNAdam(nadam, u); });
}

UpdateRule RuleOf(const RAdam& radam) {
  return MakeRule("radam", 1e-3, radam.decay,
                  [radam](const RuleUpdate& u) { UpdateRAdam(radam, u); });
}

UpdateRule RuleOf(const Adamax& adamax) {
  return MakeRule("adamax", 2e-3, adamax.decay,
                  [adamax](const RuleUpdate& u) { UpdateAdamax(adamax, u); });
}

UpdateRule RuleOf(const Adadelta& adadelta) {
  return MakeRule(
      "adadelta", 1, adadelta.decay,
      [adadelta](const RuleUpdate& u) { UpdateAdadelta(adadelta, u); });
}

UpdateRule RuleOf(const Asgd& asgd) {
  return MakeRule("asgd", 1e-2, asgd.decay,
                  [asgd](const RuleUpdate& u) { UpdateAsgd(asgd, u); });
}

UpdateRule RuleOf(const Rprop& rprop) {
  return MakeRule("rprop", 1e-2, rprop.decay,
                  [rprop](const RuleUpdate& u) { UpdateRprop(rprop, u); });
}

UpdateRule RuleOf(const Sgd& sgd) {
  return MakeRule("sgd", 1e-1, sgd.decay, [](const RuleUpdate& u) {
    u.Subtract(u.Times(u.Gradient(), u.lr));
  });
}

UpdateRule RuleOf(const Momentum& momentum) {
  return MakeRule("momentum", 2e-2, momentum.decay,
                  [momentum](const RuleUpdate& u) {
                    UpdateByMomentum(u, momentum.momentum, momentum.dampening,
                                     /*is_nesterov=*/false);
                  });
}

UpdateRule RuleOf(const Nesterov& nesterov) {
  return MakeRule("nesterov", 2e-2, nesterov.decay,
                  [nesterov](const RuleUpdate& u) {
                    UpdateByMomentum(u, nesterov.momentum, /*dampening=*/0,
                                     /*is_nesterov=*/true);
                  });
}

UpdateRule RuleOf(const RmsProp& rms_prop) {
  return MakeRule(
      "rmsprop", 1e-2, rms_prop.decay,
      [rms_prop](const RuleUpdate& u) { UpdateRmsProp(rms_prop, u); });
}

UpdateRule RuleOf(const Adagrad& adagrad) {
  return MakeRule(
      "adagrad", 1e-2, adagrad.decay,
      [adagrad](const RuleUpdate& u) { UpdateAdagrad(adagrad, u); });
}

UpdateRule RuleOf(const Adam& adam) {
  return MakeRule("adam", 1e-3, adam.decay, [adam](const RuleUpdate& u) {
    UpdateByAdam(adam, /*is_decoupled=*/false, u);
  });
}

UpdateRule RuleOf(const AdamW& adamw) {
  return MakeRule("adamw", 1e-3, adamw.decay, [adamw](const RuleUpdate& u) {
    UpdateByAdam(adamw, /*is_decoupled=*/true, u);
  });
}

}  // namespace stowage
