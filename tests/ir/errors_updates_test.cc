// The messages of mistakes that updates of params can name, word for word.

#include <doctest/doctest.h>

#include <vector>

#include "ir/builder.h"
#include "ir/element_groups.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/ir/op_rows.h"

namespace stowage {
namespace {

using Values = std::vector<Value>;

TEST_CASE("optimizer updates") {
  CheckRows({
      {[](GraphBuilder& g) {
         const Value w = g.Param("w", DType::kF32, {2});
         g.Emit(OpKind::kSgdUpdate, Values{w, w}, {{"decay", 0.0}});
       },
       "[sgd_update] takes 3 operands, or 4 with scale; was given 2"},
      {[](GraphBuilder& g) {
         const Value w = g.Param("w", DType::kF32, {2});
         g.Emit(OpKind::kAdamWUpdate, Values(8, w),
                {{"beta1", 0.9}, {"beta2", 0.9}, {"eps", 0.1}, {"decay", 0.0}});
       },
       "[adamw_update] takes 6 operands, or 7 with scale; was given 8"},
      {[](GraphBuilder& g) {
         SgdUpdate(g.Param("w", DType::kI32, {2}), I32(g, "dw", {2}),
                   F32(g, "lr", {}), Value(), 0);
       },
       "[sgd_update] w \"w\" is i32(2); expected f32, f64, f16 or bf16"},
      {[](GraphBuilder& g) {
         SgdUpdate(g.Param("w", DType::kF32, {2}), F32(g, "dw", {3}),
                   F32(g, "lr", {}), Value(), 0);
       },
       "[sgd_update] g \"dw\" is f32(3); expected f32(2), since w \"w\" is "
       "f32(2)"},
      {[](GraphBuilder& g) {
         SgdUpdate(g.Param("w", DType::kF64, {2}), F64(g, "dw", {2}),
                   F64(g, "lr", {}), Value(), 0);
       },
       "[sgd_update] lr \"lr\" is f64(); expected f32(), a scalar"},
      {[](GraphBuilder& g) {
         SgdUpdate(g.Param("w", DType::kF32, {2}), F32(g, "dw", {2}),
                   F32(g, "lr", {}), F32(g, "clip", {1}), 0);
       },
       "[sgd_update] scale \"clip\" is f32(1); expected f32(), a scalar"},
      {[](GraphBuilder& g) {
         SgdUpdate(g.Param("w", DType::kF32, {2}), F32(g, "dw", {2}),
                   F32(g, "lr", {}), Value(), -0.5);
       },
       "[sgd_update] decay is -0.5; expected a finite number of at least 0"},
      {[](GraphBuilder& g) {
         MomentumUpdate(g.Param("w", DType::kF32, {2}),
                        g.State("velocity", DType::kF64, {2}),
                        F32(g, "dw", {2}), F32(g, "lr", {}), Value(), 0.9, 0);
       },
       "[momentum_update] velocity \"velocity\" is f64(2); expected f32(2), "
       "since w \"w\" is f32(2)"},
      {[](GraphBuilder& g) {
         MomentumUpdate(g.Param("w", DType::kF32, {2}),
                        g.State("velocity", DType::kF32, {2}),
                        F32(g, "dw", {2}), F32(g, "lr", {}), Value(), 1, 0);
       },
       "[momentum_update] momentum is 1; expected at least 0 and below 1"},
      {[](GraphBuilder& g) {
         AdamWUpdate(g.Param("w", DType::kF32, {2}),
                     g.State("m", DType::kF32, {2}),
                     g.State("v", DType::kF32, {3}), F32(g, "dw", {2}),
                     F32(g, "lr", {}), I64(g, "step", {}), Value(), 0.9, 0.999,
                     1e-8, 0);
       },
       "[adamw_update] v \"v\" is f32(3); expected f32(2), since w \"w\" is "
       "f32(2)"},
      {[](GraphBuilder& g) {
         AdamWUpdate(g.Param("w", DType::kF32, {2}),
                     g.State("m", DType::kF32, {2}),
                     g.State("v", DType::kF32, {2}), F32(g, "dw", {2}),
                     F32(g, "lr", {}), F32(g, "step", {}), Value(), 0.9, 0.999,
                     1e-8, 0);
       },
       "[adamw_update] step \"step\" is f32(); expected i64(), a scalar"},
      {[](GraphBuilder& g) {
         AdamWUpdate(
             g.Param("w", DType::kF32, {2}), g.State("m", DType::kF32, {2}),
             g.State("v", DType::kF32, {2}), F32(g, "dw", {2}),
             F32(g, "lr", {}), I64(g, "step", {}), Value(), 0.9, 1.5, 1e-8, 0);
       },
       "[adamw_update] beta2 is 1.5; expected at least 0 and below 1"},
      {[](GraphBuilder& g) {
         AdamWUpdate(
             g.Param("w", DType::kF32, {2}), g.State("m", DType::kF32, {2}),
             g.State("v", DType::kF32, {2}), F32(g, "dw", {2}),
             F32(g, "lr", {}), I64(g, "step", {}), Value(), 0.9, 0.999, 0, 0);
       },
       "[adamw_update] eps is 0; expected a finite number above 0"},
      {[](GraphBuilder& g) {
         AdamWSplitUpdate(
             g.Param("w", DType::kF32, {2}), g.State("r", DType::kI16, {2}),
             g.State("m", DType::kF32, {2}), g.State("v", DType::kF32, {2}),
             F32(g, "dw", {2}), F32(g, "lr", {}), I64(g, "step", {}), Value(),
             0.9, 0.999, 1e-8, 0);
       },
       "[adamw_split_update] w \"w\" is f32(2); expected bf16"},
      {[](GraphBuilder& g) {
         AdamWSplitUpdate(
             g.Param("w", DType::kBF16, {2}), g.State("r", DType::kI32, {2}),
             g.State("m", DType::kF32, {2}), g.State("v", DType::kF32, {2}),
             F32(g, "dw", {2}), F32(g, "lr", {}), I64(g, "step", {}), Value(),
             0.9, 0.999, 1e-8, 0);
       },
       "[adamw_split_update] delta \"r\" is i32(2); expected i16(2), since w "
       "\"w\" is bf16(2)"},
      {[](GraphBuilder& g) {
         AdamWSplitUpdate(
             g.Param("w", DType::kBF16, {2}), g.State("r", DType::kI16, {2}),
             g.State("m", DType::kBF16, {2}), g.State("v", DType::kF32, {2}),
             F32(g, "dw", {2}), F32(g, "lr", {}), I64(g, "step", {}), Value(),
             0.9, 0.999, 1e-8, 0);
       },
       "[adamw_split_update] m \"m\" is bf16(2); expected f32(2), since w "
       "\"w\" is bf16(2)"},
      {[](GraphBuilder& g) {
         AdamWBf16Update(g.Param("w", DType::kF64, {2}),
                         g.State("m", DType::kBF16, {2}),
                         g.State("v", DType::kBF16, {2}), F64(g, "dw", {2}),
                         F32(g, "lr", {}), I64(g, "step", {}),
                         I64(g, "seed", {}), Value(), {}, {1, 0});
       },
       "[adamw_bf16_update] w \"w\" is f64(2); expected f32"},
      {[](GraphBuilder& g) {
         MomentumBf16Update(g.Param("w", DType::kF32, {2}),
                            g.State("u", DType::kBF16, {2}), F32(g, "dw", {2}),
                            F32(g, "lr", {}), I64(g, "step", {}),
                            F32(g, "seed", {}), Value(), 0.9, 0, {1, 0});
       },
       "[momentum_bf16_update] seed \"seed\" is f32(); expected i64(), a "
       "scalar"},
      {[](GraphBuilder& g) {
         MomentumBf16Update(g.Param("w", DType::kF32, {2}),
                            g.State("u", DType::kBF16, {2}), F32(g, "dw", {2}),
                            F32(g, "lr", {}), I64(g, "step", {}),
                            I64(g, "seed", {}), Value(), 0.9, 0, {1, 6});
       },
       "[momentum_bf16_update] first is 6; expected a multiple of 4 that is "
       "not negative"},
      {[](GraphBuilder& g) {
         AdamWBf16Update(g.Param("w", DType::kF32, {2}),
                         g.State("m", DType::kBF16, {2}),
                         g.State("v", DType::kBF16, {2}), F32(g, "dw", {2}),
                         F32(g, "lr", {}), I64(g, "step", {}),
                         I64(g, "seed", {}), Value(), {}, {1, -4});
       },
       "[adamw_bf16_update] first is -4; expected a multiple of 4 that is not "
       "negative"},
      {[](GraphBuilder& g) {
         JoinWeight(g.Param("w", DType::kF16, {2}),
                    g.State("d", DType::kI16, {2}));
       },
       "[join_weight] w \"w\" is f16(2); expected bf16(2), the upper part of "
       "an "
       "f32"},
      {[](GraphBuilder& g) {
         JoinWeight(g.Param("w", DType::kBF16, {2}),
                    g.State("d", DType::kU8, {2}));
       },
       "[join_weight] delta \"d\" is u8(2); expected i16(2), since w \"w\" is "
       "bf16(2)"},
      {[](GraphBuilder& g) {
         SplitUpdate(g.Param("w", DType::kBF16, {2}),
                     g.State("d", DType::kI16, {2}), BF16(g, "x", {2}));
       },
       "[split_update] x \"x\" is bf16(2); expected f32(2), since w \"w\" is "
       "bf16(2)"},
      {[](GraphBuilder& g) {
         AdamW8BitUpdate(
             g.Param("w", DType::kF32, {257}),
             {g.State("m", DType::kU8, {257}), g.State("v", DType::kU8, {257}),
              g.State("m_scale", DType::kF32, {2}),
              g.State("v_scale", DType::kF32, {1})},
             F32(g, "dw", {257}), F32(g, "lr", {}), I64(g, "step", {}), Value(),
             {}, MomentCode::kDynamic);
       },
       "[adamw_8bit_update] v_scale \"v_scale\" is f32(1); expected f32(2), "
       "since w \"w\" is f32(257)"},
  });
}

}  // namespace
}  // namespace stowage
