#ifndef STOWAGE_NN_ROPE_SCALING_H_
#define STOWAGE_NN_ROPE_SCALING_H_

// Scaled rotary position embeddings, for texts longer than in pre-training: the frequency of
// each pair of a head's elements is divided by a factor. Llama 3.1 divides long wavelengths by
// a constant, short ones by 1, and interpolates between (Grattafiori et al. 2024); YaRN
// interpolates differently and also scales queries and keys (Peng et al. 2023); LongRoPE has a
// searched factor per pair (Ding et al. 2024). The formulas are those of Hugging Face's
// modeling_rope_utils.py.
//
// The op `rope` has only a base; here, cosines and sines are constants of the graph, computed
// in double.
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
/// The frequency divisors of the `dims` / 2 pairs. Precondition: CheckLlama3Rope.
std::vector<double> Llama3RopeFactors(int64_t dims, double base,
                                      const Llama3RopeScaling& scaling);

struct YarnRopeScaling {
  double factor = 1;
  double original_positions = 32768;
  double fast_turns =
      32;  // pairs with more turns in these positions are unchanged
  double slow_turns = 1;  // pairs with fewer are divided by the factor
  bool truncate = true;   // rounds the bounds to whole pairs
};
/// Error kInvalidArgument, naming it, unless all numbers are finite and above 0.
Status CheckYarn(const YarnRopeScaling& scaling);
/// The frequency divisors of the `dims` / 2 pairs. Precondition: CheckYarn.
std::vector<double> YarnRopeFactors(int64_t dims, double base,
                                    const YarnRopeScaling& scaling);
/// YaRN's scale of queries and keys: 1 + weight ln(factor) / 10.
double YarnGain(double factor, double weight = 1);

/// LongRoPE's scale of queries and keys: sqrt(1 + ln(factor) / ln(original_positions)).
/// Precondition: more than one original position.
double LongRopeGain(double factor, double original_positions);

/// Error kInvalidArgument unless `factors` is empty, or has dims / 2 finite positive numbers.
Status CheckRopeFactors(std::string_view model, int64_t dims,
                        std::span<const double> factors);

struct RopeTable {
  Value cos, sin;  // f32 (positions, 1, dims / 2)
};
/// The table in which pair i rotates by position * base^(-2i / dims) / factors[i] and is
/// scaled by `gain`. Precondition: dims / 2 factors.
RopeTable ScaledRopeTable(GraphBuilder& g, int64_t positions, int64_t dims,
                          double base, std::span<const double> factors,
                          double gain, SourceLoc loc = SourceLoc::Current());

/// The rows at `positions`, i32 (T), each in the table.
RopeTable RowsOf(const RopeTable& table, Value positions,
                 SourceLoc loc = SourceLoc::Current());

/// x (B, T, H, D) with pairs of elements i and i + dims / 2 rotated, for a table of T positions
/// and dims <= D elements; later elements are unchanged. Computed in f32 and rounded to x's
/// type.
Value Rope(Value x, const RopeTable& table,
           SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_NN_ROPE_SCALING_H_
