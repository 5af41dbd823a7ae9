#ifndef STOWAGE_NN_ROPE_SCALING_H_
#define STOWAGE_NN_ROPE_SCALING_H_

// Rotary positions for texts longer than those that a model first learned from: some
// pairs of elements of a head turn slower than rope's base has them turn. Llama 3.1
// divides the turns of pairs whose wavelength is long by a factor, those of short ones
// by 1, and those between by something between (Grattafiori et al. 2024); YaRN says
// otherwise which are between, and makes queries and keys longer (Peng et al. 2023);
// LongRoPE has a searched factor for each pair (Ding et al. 2024). The formulas are
// Hugging Face's, modeling_rope_utils.py.
//
// The op `rope` knows a base and nothing else; here, cosines and sines are constants of
// the graph, computed in double, and turn the halves of a head by products.
//
//   const std::vector<double> factors = Llama3RopeFactors(128, 500000, {});
//   const RopeTable turns = ScaledRopeTable(g, /*positions=*/2048, 128, 500000, factors,
//                                           /*gain=*/1);
//   const Value turned = Rope(q, turns);

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/builder.h"

namespace stowage {

struct Llama3RopeScaling {
  double factor = 8;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  double original_positions = 8192;
};
/// Error kInvalidArgument, naming it, unless all numbers are finite and above 0, and the
/// high frequency factor above the low one.
Status CheckLlama3Rope(const Llama3RopeScaling& scaling);
/// By how much slower each of the `dims` / 2 pairs turns. Precondition: CheckLlama3Rope.
std::vector<double> Llama3RopeFactors(int64_t dims, double base,
                                      const Llama3RopeScaling& scaling);

struct YarnRopeScaling {
  double factor = 1;
  double original_positions = 32768;
  double fast_turns = 32;  // in these positions: pairs that turn as often stay
  double slow_turns =
      1;  // and those that turn no oftener are divided by the factor
  bool truncate = true;  // the bounds between them to whole pairs
};
/// Error kInvalidArgument, naming it, unless all numbers are finite and above 0.
Status CheckYarn(const YarnRopeScaling& scaling);
/// By how much slower each of the `dims` / 2 pairs turns. Precondition: CheckYarn.
std::vector<double> YarnRopeFactors(int64_t dims, double base,
                                    const YarnRopeScaling& scaling);
/// By how much longer YaRN makes queries and keys: 1 + weight ln(factor) / 10.
double YarnGain(double factor, double weight = 1);

/// By how much longer LongRoPE makes queries and keys of a model that learned from texts
/// of `original_positions` first: sqrt(1 + ln(factor) / ln(original_positions)).
/// Precondition: more than one original position.
double LongRopeGain(double factor, double original_positions);

/// Error kInvalidArgument unless there are none, or dims / 2, all finite and above 0.
Status CheckRopeFactors(std::string_view model, int64_t dims,
                        std::span<const double> factors);

struct RopeTable {
  Value cos, sin;  // f32 (positions, 1, dims / 2)
};
/// Pair i turns by position * base^(-2i / dims) / factors[i], and becomes `gain` times as
/// long. Precondition: the factors are dims / 2.
RopeTable ScaledRopeTable(GraphBuilder& g, int64_t positions, int64_t dims,
                          double base, std::span<const double> factors,
                          double gain, SourceLoc loc = SourceLoc::Current());

/// The rows of some positions, i32 (T), of which each is one of the table's.
RopeTable RowsOf(const RopeTable& table, Value positions,
                 SourceLoc loc = SourceLoc::Current());

/// x (B, T, H, D) with pairs of elements i and i + dims / 2 turned, for a table of T
/// positions and `dims` elements, at most D; those behind them stay. Computed in f32 and
/// rounded to x's type.
Value Rope(Value x, const RopeTable& table,
           SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_NN_ROPE_SCALING_H_
