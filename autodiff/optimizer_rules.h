#ifndef STOWAGE_AUTODIFF_OPTIMIZER_RULES_H_
#define STOWAGE_AUTODIFF_OPTIMIZER_RULES_H_

// Implements optimizers of torch.optim as update rules (autodiff/update_rule.h), composed of
// elementwise ops. Some optimizers have no op: NAdam, RAdam, Adamax, Adadelta, Asgd and Rprop. The
// others have an op, and a rule for settings that the op does not support, such as a momentum that
// is an input of the step. Formulas and states are PyTorch's. In the formulas, `t` is the step, and
// `d` is the gradient plus decay * w. Coefficients such as lr / (1 - beta1^t) are computed once for
// all params with the same settings (autodiff/step_scalars.h).
//
//   TrainOptions options{.optimizer = NAdam{.decay = 0.01, .is_decoupled = true}};

#include "autodiff/update_rule.h"

namespace stowage {

struct Sgd;
struct Momentum;
struct Nesterov;
struct RmsProp;
struct Adagrad;
struct Adam;
struct AdamW;

/// NAdam (Dozat 2016, "Incorporating Nesterov momentum into Adam"), with m and v as in Adam:
///
///   mu(t) = beta1 (1 - 0.96^(t momentum_decay) / 2)
///   P = mu(1) mu(2) ... mu(t)
///   w -= lr ((1 - mu(t)) / (1 - P) d + mu(t+1) / (1 - P mu(t+1)) m) / (sqrt(v_hat) + eps)
///
/// The states are "w.m", "w.v" and the scalar "w.mu_product", which is P.
struct NAdam {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
  double momentum_decay = 4e-3;
  /// Applies the decay as w -= lr decay w, as in AdamW, instead of adding it to the gradient.
  bool is_decoupled = false;
};

/// RAdam (Liu et al. 2020, "On the variance of the adaptive learning rate and beyond"):
///
///   r_inf = 2 / (1 - beta2) - 1
///   r = r_inf - 2 t beta2^t / (1 - beta2^t)
///
/// If r > 5, the update is Adam's times sqrt((r - 4) (r - 2) r_inf / ((r_inf - 4) (r_inf - 2) r)),
/// where eps is added to sqrt(v) before the bias correction of v. Otherwise, the update is
/// w -= lr m_hat. `is_decoupled` has the same meaning as in NAdam.
struct RAdam {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
  bool is_decoupled = false;
};

/// Adamax (Kingma & Ba 2015, section 7):
///
///   m = beta1 m + (1 - beta1) d
///   u = max(beta2 u, |d| + eps)
///   w -= lr / (1 - beta1^t) m / u
///
/// The states are "w.m" and "w.u".
struct Adamax {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
};

/// Adadelta (Zeiler 2012):
///
///   v = rho v + (1 - rho) d^2
///   c = sqrt(u + eps) / sqrt(v + eps) d
///   u = rho u + (1 - rho) c^2
///   w -= lr c
///
/// The states are "w.v" and "w.u".
struct Adadelta {
  double rho = 0.9;
  double eps = 1e-6;
  double decay = 0;
};

/// Averaged SGD (Polyak & Juditsky 1992):
///
///   w = (1 - lambd eta) w - eta d
///   ax += (w - ax) / max(1, t - 1 - t0)
///   eta = lr / (1 + lambd lr t)^alpha
///
/// In the first step, eta is lr. The states are the average, "w.ax", and the scalar "w.eta", which
/// is computed for the next step.
struct Asgd {
  double lambd = 1e-4;
  double alpha = 0.75;
  double t0 = 1e6;
  double decay = 0;
};

/// Rprop (Riedmiller & Braun 1993), with s = sign(d prev) for each element:
///
///   size = clamp(size * (eta_plus if s > 0, eta_minus if s < 0, else 1), min_step, max_step)
///   d = 0 if s < 0
///   w -= sign(d) size
///   prev = d
///
/// The initial size is the learning rate, which has no other effect. The states are "w.prev" and
/// "w.step_size".
struct Rprop {
  double eta_minus = 0.5;
  double eta_plus = 1.2;
  double min_step = 1e-6;
  double max_step = 50;
  double decay = 0;
};

/// These functions return an optimizer as an update rule. The settings must pass CheckOptimizer.
/// Moments and velocities must not have a low-precision format, because a rule stores them in the
/// type of the param, or in f32 for a split bf16 param. Params must be f32, f64 or bf16.
UpdateRule RuleOf(const NAdam& nadam);
UpdateRule RuleOf(const RAdam& radam);
UpdateRule RuleOf(const Adamax& adamax);
UpdateRule RuleOf(const Adadelta& adadelta);
UpdateRule RuleOf(const Asgd& asgd);
UpdateRule RuleOf(const Rprop& rprop);
UpdateRule RuleOf(const Sgd& sgd);
UpdateRule RuleOf(const Momentum& momentum);
UpdateRule RuleOf(const Nesterov& nesterov);
UpdateRule RuleOf(const RmsProp& rms_prop);
UpdateRule RuleOf(const Adagrad& adagrad);
UpdateRule RuleOf(const Adam& adam);
UpdateRule RuleOf(const AdamW& adamw);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_OPTIMIZER_RULES_H_
