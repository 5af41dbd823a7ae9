#ifndef STOWAGE_NN_ROPE_SCALING_H_
#define STOWAGE_NN_ROPE_SCALING_H_

// Scales rotary position embeddings (RoPE) for texts that are longer than the texts of
// pre-training. The rotation frequency of each pair of a head's elements is divided by a factor.
// Llama 3.1 divides low frequencies by a constant, keeps high frequencies, and interpolates between
// them (Grattafiori et al. 2024). YaRN interpolates differently and also scales queries and keys
// (Peng et al. 2023). LongRoPE has a separate factor for each pair, found by search (Ding et al.
// 2024). The formulas are from Hugging Face's modeling_rope_utils.py.
//
// The op `rope` has no scaling. The functions here instead add a table of cosines and sines, which
// are computed in double precision, to the graph as constants.
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
/// Returns kInvalidArgument, naming the number, unless all numbers are finite and positive and
/// high_frequency_factor exceeds low_frequency_factor.
Status CheckLlama3Rope(const Llama3RopeScaling& scaling);
/// Returns the frequency divisors of the `dims` / 2 pairs. `base` is RoPE's base. Requires that
/// CheckLlama3Rope succeeds.
std::vector<double> Llama3RopeFactors(int64_t dims, double base,
                                      const Llama3RopeScaling& scaling);

struct YarnRopeScaling {
  double factor = 1;
  double original_positions = 32768;
  double fast_turns =
      32;  // pairs with more turns in original_positions are unscaled
  double slow_turns = 1;  // pairs with fewer turns are divided by `factor`
  bool truncate = true;   // rounds these bounds outward to whole pairs
};
/// Returns kInvalidArgument, naming the number, unless all numbers are finite and positive.
Status CheckYarn(const YarnRopeScaling& scaling);
/// Returns the frequency divisors of the `dims` / 2 pairs. `base` is RoPE's base, which must exceed
/// 1. Requires that CheckYarn succeeds.
std::vector<double> YarnRopeFactors(int64_t dims, double base,
                                    const YarnRopeScaling& scaling);
/// Returns YaRN's factor of queries and keys, 1 + weight ln(factor) / 10, or 1 if `factor` <= 1.
double YarnGain(double factor, double weight = 1);

/// Returns LongRoPE's factor of queries and keys, sqrt(1 + ln(factor) / ln(original_positions)), or
/// 1 if `factor` <= 1. Requires `original_positions > 1`.
double LongRopeGain(double factor, double original_positions);

/// Returns kInvalidArgument, naming `model`, unless `factors` is empty or has dims / 2 finite
/// positive numbers.
Status CheckRopeFactors(std::string_view model, int64_t dims,
                        std::span<const double> factors);

struct RopeTable {
  Value cos, sin;  // f32 (positions, 1, dims / 2)
};
/// Returns the table that rotates pair i by the angle position * base^(-2i / dims) / factors[i] and
/// scales it by `gain`, for positions 0 to positions - 1. Requires that `factors` has dims / 2
/// elements.
RopeTable ScaledRopeTable(GraphBuilder& g, int64_t positions, int64_t dims,
                          double base, std::span<const double> factors,
                          double gain, SourceLoc loc = SourceLoc::Current());

/// Returns the rows of `table` at `positions`, i32 (T), which must be positions of the table.
RopeTable RowsOf(const RopeTable& table, Value positions,
                 SourceLoc loc = SourceLoc::Current());

/// Rotates each pair of elements i and i + dims / 2 of x (B, T, H, D). `table` must have T
/// positions, and its `dims` must not exceed D. Elements from index dims on are unchanged. The
/// result is computed in f32 and rounded to the type of x.
Value Rope(Value x, const RopeTable& table,
           SourceLoc loc = SourceLoc::Current());

}  // namespace stowage

#endif  // STOWAGE_NN_ROPE_SCALING_H_
