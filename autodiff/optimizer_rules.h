#ifndef STOWAGE_AUTODIFF_OPTIMIZER_RULES_H_
#define STOWAGE_AUTODIFF_OPTIMIZER_RULES_H_

// The optimizers of torch.optim as update rules (autodiff/update_rule.h): those that have no op
// of their own, and the forms of the others that their ops do not have, such as a momentum that
// is an input of the step. Formulas and states are PyTorch's; `t` is the step, `d` the gradient
// plus decay * w. Coefficients, such as lr / (1 - beta1^t), are computed once for all
// params with the same settings (autodiff/step_scalars.h).
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

/// Dozat 2016, "Incorporating Nesterov momentum into Adam", with m and v of Adam:
/// mu(t) = beta1 (1 - 0.96^(t momentum_decay) / 2), P = the product of mu(1) to mu(t);
/// w -= lr ((1 - mu(t)) / (1 - P) d + mu(t+1) / (1 - P mu(t+1)) m) / (sqrt(v_hat) + eps).
/// States "w.m", "w.v" and the scalar "w.mu_product", P.
struct NAdam {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
  double momentum_decay = 4e-3;
  bool is_decoupled = false;  // w -= lr decay w, as in AdamW, rather than d
};

/// Liu et al. 2020, "On the variance of the adaptive learning rate and beyond": with
/// r_inf = 2 / (1 - beta2) - 1 and r = r_inf - 2 t beta2^t / (1 - beta2^t), the update is Adam's
/// times sqrt((r - 4) (r - 2) r_inf / ((r_inf - 4) (r_inf - 2) r)) if r > 5, else lr m_hat. eps is
/// added to sqrt(v) before the correction of v.
struct RAdam {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
  bool is_decoupled = false;
};

/// Kingma & Ba 2015, section 7: m = beta1 m + (1 - beta1) d;  u = max(beta2 u, |d| + eps);
/// w -= lr / (1 - beta1^t) m / u. States "w.m" and "w.u".
struct Adamax {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double decay = 0;
};

/// Zeiler 2012: v = rho v + (1 - rho) d^2;  c = sqrt(u + eps) / sqrt(v + eps) d;
/// u = rho u + (1 - rho) c^2;  w -= lr c. States "w.v" and "w.u".
struct Adadelta {
  double rho = 0.9;
  double eps = 1e-6;
  double decay = 0;
};

/// Polyak & Juditsky 1992, averaged SGD: w = (1 - lambd eta) w - eta d;
/// ax += (w - ax) / max(1, t - 1 - t0);  eta = lr / (1 + lambd lr t)^alpha, which the next step
/// uses; the first one uses lr. States "w.ax" and the scalar "w.eta".
struct Asgd {
  double lambd = 1e-4;
  double alpha = 0.75;
  double t0 = 1e6;
  double decay = 0;
};

/// Riedmiller & Braun 1993: s = sign(d prev); size is multiplied by eta_plus where s > 0, by
/// eta_minus where s < 0, and clamped to [min_step, max_step]; d = 0 where s < 0;
/// w -= sign(d) size;  prev = d. The first size is the learning rate. States "w.prev" and
/// "w.step_size".
struct Rprop {
  double eta_minus = 0.5;
  double eta_plus = 1.2;
  double min_step = 1e-6;
  double max_step = 50;
  double decay = 0;
};

/// The optimizers as rules. Preconditions: constants in range, and full moments.
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
