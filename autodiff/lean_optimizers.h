#ifndef STOWAGE_AUTODIFF_LEAN_OPTIMIZERS_H_
#define STOWAGE_AUTODIFF_LEAN_OPTIMIZERS_H_

// Optimizers that keep less than Adam's eight bytes of states for a param's four, made
// of other ops, so that they run wherever these do and the planner places what they need
// in between, as anything else of a step:
//
//   optimizer   states of a matrix (R, C)          of a vector (N)
//   Lion        4 R C bytes                        4 N
//   Muon        4 R C                              8 N (AdamW)
//   Adafactor   4 (R + C)                          4 N
//
// Params of more than two axes, such as filters (O, I, 3, 3), count as matrices of their
// first axis and the rest. Params are f32 or f64, or bf16 as the upper part of an f32 that
// these compute with, whose other 16 bits are a state more (UpdateRule::splits_bf16).
//
//   TrainOptions options{.optimizer = Adafactor{}};

#include "autodiff/update_rule.h"

namespace stowage {

/// Chen et al. 2023, "Symbolic discovery of optimization algorithms":
/// c = beta1 m + (1 - beta1) g;  w -= lr (sign(c) + decay w);
/// m = beta2 m + (1 - beta2) g. Learning rates are 3 to 10 times below AdamW's.
struct Lion {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double decay = 0;
};

/// Shazeer & Stern 2018, "Adafactor", in PyTorch's form. Of a matrix's mean squares
/// only those of rows and columns are kept:
/// b = step^beta2_decay;  r += b (mean of g^2 over a row - r);
/// c += b (mean of g^2 over a column - c);  v = r c / max(mean r, eps1); of a vector
/// v += b (g^2 - v). u = g / sqrt(max(v, eps1^2));
/// a = max(eps2, rms w) min(lr, 1 / sqrt(step));
/// w -= lr decay w + a u / max(1, rms u / clip). eps1 is the machine epsilon of w's
/// type. r and c are the states row_var and col_var, as PyTorch calls them.
struct Adafactor {
  double beta2_decay = -0.8;
  double eps2 = 1e-3;
  double clip = 1;
  double decay = 0;
};

/// Jordan et al. 2024, "Muon", with the scale of Liu et al. 2025, by which AdamW's
/// learning rates serve: m += (1 - momentum) (g - m);  u = g + momentum (m - g);
/// u = u / max(norm u, 1e-7), then `iterations` times u = a u + b s u + c s^2 u for
/// s = u u^T (or its mirror image where R > C);
/// w -= lr decay w + lr 0.2 sqrt(max(R, C)) u. The Newton-Schulz steps are in w's type.
/// Vectors, and tables of which an op `gather` takes rows, are AdamW's, with beta1,
/// beta2 and eps.
struct Muon {
  double momentum = 0.95;
  int iterations = 5;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double decay = 0.1;
};

/// Whether Muon makes the param's momentum orthogonal: it is a matrix, or counts as one,
/// and no table of which rows are taken. Linear in the nodes of its graph.
bool TakesMatrix(Value param);

/// As rules; that of Muon for params that TakesMatrix. Preconditions: constants in range.
UpdateRule RuleOf(const Lion& lion);
UpdateRule RuleOf(const Adafactor& adafactor);
UpdateRule RuleOf(const Muon& muon);

}  // namespace stowage

#endif  // STOWAGE_AUTODIFF_LEAN_OPTIMIZERS_H_
