// Rows of updates of numbers that are kept in parts or in fewer bits: of these types
// whatever the type of reals is.

#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "ir/element_groups.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/support/op_case_table.h"

namespace stowage::testing {
namespace {

// A last bit of a byte, of which the largest is 255.
constexpr double kLastOfByte = 1.0 / 250;

constexpr AdamWOptions kOptions = {.beta2 = 0.99, .decay = 0.1};

LeafSpec Of(const char* name, DType dtype, const Shape& shape, double low,
            double high, Role role = Role::kState) {
  return {name, dtype, shape, Content::kReal, low, high, role};
}
LeafSpec Bytes(const char* name, const Shape& shape) {
  return {name, DType::kU8, shape, kInteger, 0, 256, Role::kState};
}

// How a row's weight is kept: f32, or bf16 with a delta of this type.
struct Weight {
  const char* variant;
  bool splits;
  DType delta = DType::kI16;
};
constexpr Weight kWhole = {"", false};
constexpr Weight kLong = {"", true};
constexpr Weight kShort = {" in 24 bits", true, DType::kU8};

std::vector<LeafSpec> WeightLeaves(const Weight& weight, const Shape& shape) {
  if (!weight.splits) {
    return {Of("w", DType::kF32, shape, -1, 1, Role::kParam)};
  }
  std::vector<LeafSpec> leaves = {
      Of("w", DType::kBF16, shape, -1, 1, Role::kParam)};
  leaves.push_back(weight.delta == DType::kU8
                       ? Bytes("delta", shape)
                       : LeafSpec{"delta", DType::kI16, shape, kInteger, -32768,
                                  32768, Role::kState});
  return leaves;
}

// The gradient and the scalars, the last of them perhaps a scale.
void AddOthers(const Weight& weight, const Shape& shape, bool has_seed,
               bool scaled, std::vector<LeafSpec>* leaves) {
  const DType dtype = weight.splits ? DType::kBF16 : DType::kF32;
  leaves->push_back(Of("g", dtype, shape, -1, 1, Role::kInput));
  leaves->push_back(OpCaseTable::Scalar("lr", DType::kF32, 0.125));
  LeafSpec step = OpCaseTable::Index("step", {}, 5, DType::kI64);
  step.low = 1;  // steps count from 1
  leaves->push_back(step);
  if (has_seed) {
    leaves->push_back(OpCaseTable::Index("seed", {}, 1e9, DType::kI64));
  }
  if (scaled)
    leaves->push_back(OpCaseTable::Scalar("scale", DType::kF32, 0.75));
}

std::string Variant(const Weight& weight, const char* more, bool scaled) {
  return StrCat(weight.variant, more, scaled ? " with a scale" : "");
}

void AddFull(OpCaseTable& t, const Weight& weight, bool scaled) {
  const Shape shape{3, 5};
  std::vector<LeafSpec> leaves = WeightLeaves(weight, shape);
  leaves.push_back(Of("m", DType::kF32, shape, -1, 1));
  leaves.push_back(Of("v", DType::kF32, shape, 0.1, 1));
  AddOthers(weight, shape, /*has_seed=*/false, scaled, &leaves);
  // The error is that of delta, where a last bit of the f32 number is 2^-15.
  t.Add(OpKind::kAdamWSplitUpdate, Variant(weight, "", scaled), leaves,
        [=](GraphBuilder&, In in) {
          const AdamWSplitResults results =
              AdamWSplitUpdate(in[0], in[1], in[2], in[3], in[4], in[5], in[6],
                               scaled ? in[7] : Value(), 0.9, 0.99, 1e-8, 0.1);
          return Out{results.w, results.delta, results.m, results.v};
        })
      .tolerance = weight.delta == DType::kU8 ? kLastOfByte : 1e-3;
}

void AddBf16(OpCaseTable& t, const Weight& weight, bool scaled) {
  const RoundingNumbers numbers = {3000000007, scaled ? 20 : 0};
  const Shape shape{3, 5};
  std::vector<LeafSpec> leaves = WeightLeaves(weight, shape);
  leaves.push_back(Of("m", DType::kBF16, shape, -1, 1));
  leaves.push_back(Of("v", DType::kBF16, shape, 0.1, 1));
  AddOthers(weight, shape, /*has_seed=*/true, scaled, &leaves);
  const auto kind =
      weight.splits ? OpKind::kAdamWBf16SplitUpdate : OpKind::kAdamWBf16Update;
  t.Add(kind, Variant(weight, "", scaled), leaves, [=](GraphBuilder&, In in) {
     const Value scale = scaled ? in.back() : Value();
     if (!weight.splits) {
       const AdamWResults results =
           AdamWBf16Update(in[0], in[1], in[2], in[3], in[4], in[5], in[6],
                           scale, kOptions, numbers);
       return Out{results.w, results.m, results.v};
     }
     const AdamWSplitResults results =
         AdamWBf16SplitUpdate(in[0], in[1], in[2], in[3], in[4], in[5], in[6],
                              in[7], scale, kOptions, numbers);
     return Out{results.w, results.delta, results.m, results.v};
   }).tolerance = weight.splits ? kLastOfByte : 1e-5;
  leaves.erase(leaves.end() - (scaled ? 6 : 5) - 1);  // v
  const auto momentum_kind = weight.splits ? OpKind::kMomentumBf16SplitUpdate
                                           : OpKind::kMomentumBf16Update;
  t.Add(momentum_kind, Variant(weight, "", scaled), leaves,
        [=](GraphBuilder&, In in) {
          const Value scale = scaled ? in.back() : Value();
          if (!weight.splits) {
            const MomentumResults results =
                MomentumBf16Update(in[0], in[1], in[2], in[3], in[4], in[5],
                                   scale, 0.9, 0.1, numbers);
            return Out{results.w, results.velocity};
          }
          const MomentumSplitResults results =
              MomentumBf16SplitUpdate(in[0], in[1], in[2], in[3], in[4], in[5],
                                      in[6], scale, 0.9, 0.1, numbers);
          return Out{results.w, results.delta, results.velocity};
        })
      .tolerance = weight.splits ? kLastOfByte : 1e-5;
}

void Add8Bit(OpCaseTable& t, const Weight& weight, MomentCode code,
             bool scaled) {
  const Shape shape{2, 300};  // three blocks, the last one not full
  std::vector<LeafSpec> leaves = WeightLeaves(weight, shape);
  leaves.push_back(Bytes("m", shape));
  leaves.push_back(Bytes("v", shape));
  leaves.push_back(Of("m_scale", DType::kF32, MomentScales(shape), 0.1, 1));
  leaves.push_back(Of("v_scale", DType::kF32, MomentScales(shape), 0.1, 1));
  AddOthers(weight, shape, /*has_seed=*/false, scaled, &leaves);
  const auto kind =
      weight.splits ? OpKind::kAdamW8BitSplitUpdate : OpKind::kAdamW8BitUpdate;
  const char* const name =
      code == MomentCode::kCompanded ? ", companded" : ", dynamic";
  t.Add(kind, Variant(weight, name, scaled), leaves, [=](GraphBuilder&, In in) {
     const Value scale = scaled ? in.back() : Value();
     const size_t first = weight.splits ? 2 : 1;
     const Moments8Bit moments = {in[first], in[first + 1], in[first + 2],
                                  in[first + 3]};
     const AdamW8BitResults results =
         weight.splits
             ? AdamW8BitSplitUpdate(in[0], in[1], moments, in[6], in[7], in[8],
                                    scale, kOptions, code)
             : AdamW8BitUpdate(in[0], moments, in[5], in[6], in[7], scale,
                               kOptions, code);
     Out out = {results.w};
     if (weight.splits) out.push_back(results.delta);
     const auto& [m, v, m_scale, v_scale] = results.moments;
     out.insert(out.end(), {m, v, m_scale, v_scale});
     return out;
   }).tolerance = kLastOfByte;
}

// Of a size that is a multiple of four, and of one that is not.
void AddParts(OpCaseTable& t, const Shape& shape, const char* variant) {
  std::vector<LeafSpec> leaves = WeightLeaves(kLong, shape);
  t.Add(OpKind::kJoinWeight, variant, leaves,
        [](GraphBuilder&, In in) { return Out{JoinWeight(in[0], in[1])}; });
  leaves.push_back(Of("x", DType::kF32, shape, -1, 1, Role::kInput));
  t.Add(OpKind::kSplitUpdate, variant, leaves, [](GraphBuilder&, In in) {
    const SplitWeight results = SplitUpdate(in[0], in[1], in[2]);
    return Out{results.w, results.delta};
  });
}

}  // namespace

void AddCompactUpdates(OpCaseTable& t) {
  AddParts(t, {3, 5}, "");
  AddParts(t, {4, 300}, " in fours");
  for (const bool scaled : {false, true}) {
    AddFull(t, kLong, scaled);
    AddFull(t, kShort, scaled);
    AddBf16(t, kWhole, scaled);
    AddBf16(t, kLong, scaled);
    AddBf16(t, kShort, scaled);
  }
  Add8Bit(t, kWhole, MomentCode::kDynamic, false);
  Add8Bit(t, kWhole, MomentCode::kCompanded, true);
  Add8Bit(t, kLong, MomentCode::kCompanded, false);
  Add8Bit(t, kShort, MomentCode::kDynamic, true);
  Add8Bit(t, kShort, MomentCode::kCompanded, false);
}

}  // namespace stowage::testing
