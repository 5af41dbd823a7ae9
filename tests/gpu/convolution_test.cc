// Convolutions by the largest tiles: shapes that keep a large GPU busy, far above those
// of the op table, in groups, so that the interpreter has few products to add. Rows,
// columns and depths end within a tile, with several of each.

#include "gpu/kernels/convolution.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "ir/builder.h"
#include "ir/graph.h"
#include "ir/op_kind.h"
#include "ir/ops.h"
#include "ir/tensor_type.h"
#include "tests/gpu/run_graph.h"
#include "tests/support/elements.h"
#include "tests/support/interpret.h"

namespace stowage {
namespace {

// Of x by w, along one dimension.
struct Layer {
  int64_t images, groups, channels, filters;  // of one group
  int64_t in, kernel;
  int64_t stride = 1, padding = 0;

  int64_t out() const { return (in + 2 * padding - kernel) / stride + 1; }
  Shape x() const { return {images, groups * channels, in}; }
  Shape w() const { return {groups * filters, channels, kernel}; }
  Shape y() const { return {images, groups * filters, out()}; }
};

Graph GraphOf(OpKind op, const Layer& layer, DType dtype) {
  const ConvOptions options = {
      .stride = layer.stride, .padding = layer.padding, .groups = layer.groups};
  return MakeGraph("convolution", [&](GraphBuilder& g) {
    if (op == OpKind::kConv) {
      g.Output("made", Conv(g.Input("x", dtype, layer.x()),
                            g.Input("w", dtype, layer.w()), options));
    } else if (op == OpKind::kConvTranspose) {
      g.Output("made", ConvTranspose(g.Input("y", dtype, layer.y()),
                                     g.Input("w", dtype, layer.w()),
                                     {.stride = layer.stride,
                                      .padding = layer.padding,
                                      .groups = layer.groups,
                                      .size = {layer.in}}));
    } else {
      g.Output("made", ConvWeightGrad(g.Input("x", dtype, layer.x()),
                                      g.Input("y", dtype, layer.y()),
                                      {layer.kernel}, options));
    }
  });
}

// Against the interpreter, and the same bits in a shuffled order, leaves anywhere.
void Check(OpKind op, const Layer& layer) {
  // Numbers of bf16, which the other types hold: the interpreter's are for all.
  const Tensors leaves = RandomLeaves(GraphOf(op, layer, DType::kBF16));
  const Tensors expected =
      Interpret(GraphOf(op, layer, DType::kF32), leaves, Rounding::kTo16Bits);
  for (const DType dtype : kComputedDTypes) {
    CAPTURE(DTypeName(dtype));
    const Graph graph = GraphOf(op, layer, dtype);
    const GpuRun run = RunInEmulator(graph, leaves);
    REQUIRE(run.wrong == "");
    CHECK(LargestError(run.values.at("made"), expected.at("made")) <=
          ToleranceOf(dtype));
    if (dtype == DType::kF16) continue;  // the same code as bf16
    const GpuRun other =
        RunInEmulator(graph, leaves, {.seed = 5, .misaligned = true});
    REQUIRE(other.wrong == "");
    CHECK(run.bytes.at("made") == other.bytes.at("made"));
  }
}

// The tile that makes `rows` x `columns` sums, `count` times.
bool Takes(gpu::ConvTileSize tile, int64_t rows, int64_t columns,
           int64_t count) {
  const gpu::ConvTileSize taken = gpu::ChooseConvTile(rows, columns, count);
  return taken.rows == tile.rows && taken.columns == tile.columns;
}

TEST_CASE("tiles waste few rows and leave few multiprocessors idle") {
  CHECK(Takes({128, 128}, 256, 100'352, 1));  // of 32 x 56 x 56
  CHECK(Takes({64, 128}, 64, 100'352, 1));
  CHECK(Takes({64, 128}, 192, 100'352, 1));   // 256 rows would waste a quarter
  CHECK(Takes({128, 128}, 960, 100'352, 1));  // 1,024 waste a sixteenth
  CHECK(Takes({64, 128}, 256, 4'096, 1));     // of 64 x 8 x 8
  CHECK(Takes({64, 64}, 512, 1'024, 1));      // of 64 x 4 x 4
  CHECK(Takes({128, 128}, 512, 2'945, 1));    // 4 x 24 blocks
  CHECK(Takes({64, 128}, 512, 2'944, 1));     // 4 x 23
  CHECK(Takes({64, 128}, 512, 1'409, 1));     // 8 x 12
  CHECK(Takes({64, 64}, 512, 1'408, 1));      // 8 x 11
  CHECK(Takes({128, 128}, 128, 128, 96));
  CHECK(Takes({64, 128}, 128, 128, 95));
}

TEST_CASE("conv by tiles of 128 x 128") {
  const Layer layer = {.images = 2,
                       .groups = 24,
                       .channels = 8,
                       .filters = 200,
                       .in = 75,
                       .kernel = 5,
                       .padding = 2};
  REQUIRE(Takes({128, 128}, 200, 2 * layer.out(), 24));
  Check(OpKind::kConv, layer);
}

TEST_CASE("conv_transpose by tiles of 128 x 128") {
  const Layer layer = {.images = 2,
                       .groups = 24,
                       .channels = 200,
                       .filters = 8,
                       .in = 75,
                       .kernel = 5,
                       .padding = 2};
  REQUIRE(Takes({128, 128}, 200, 2 * 75, 24));
  Check(OpKind::kConvTranspose, layer);
}

TEST_CASE("conv_weight_grad by tiles of 128 x 128") {
  const Layer layer = {.images = 2,
                       .groups = 24,
                       .channels = 27,
                       .filters = 200,
                       .in = 24,
                       .kernel = 5,
                       .padding = 2};
  REQUIRE(Takes({128, 128}, 200, 27 * 5, 24));
  Check(OpKind::kConvWeightGrad, layer);
}

TEST_CASE("conv, conv_transpose by tiles of 64 x 128") {
  const Layer layer = {.images = 3,
                       .groups = 12,
                       .channels = 9,
                       .filters = 9,
                       .in = 681,
                       .kernel = 4,
                       .stride = 2,
                       .padding = 1};
  REQUIRE(Takes({64, 128}, 9, 3 * layer.out(), 12));
  REQUIRE(Takes({64, 128}, 9, 3 * 341, 12 * 2));  // of two phases
  Check(OpKind::kConv, layer);
  Check(OpKind::kConvTranspose, layer);
}

TEST_CASE("conv_weight_grad by tiles of 64 x 128, in pieces") {
  const Layer layer = {.images = 3,
                       .groups = 12,
                       .channels = 9,
                       .filters = 9,
                       .in = 341,
                       .kernel = 16};
  const int64_t kPieces = 4;  // of 978 elements, 256 or more each
  REQUIRE(Takes({64, 128}, 9, 9 * 16, 12 * kPieces));
  Check(OpKind::kConvWeightGrad, layer);
}

}  // namespace
}  // namespace stowage
