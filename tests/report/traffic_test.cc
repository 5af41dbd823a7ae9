#include "report/traffic.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/control_flow.h"
#include "ir/ops.h"

namespace stowage {
namespace {

Graph Must(GraphBuilder& g) {
  Result<Graph> graph = g.Finish();
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  return *std::move(graph);
}

const TrafficRow& Row(const Traffic& traffic, const std::string& family) {
  for (const TrafficRow& row : traffic.families) {
    if (row.family == family) return row;
  }
  FAIL("there is no ", family);
  return traffic.total;
}

TEST_CASE("a launch reads its operands once and writes its results once") {
  GraphBuilder g("g");
  const Value x = g.Input("x", DType::kF32, {8, 4});
  const Value w = g.Input("w", DType::kF32, {4, 16});
  const Value bias = BroadcastTo(g.Input("b", DType::kF32, {16}), {8, 16});
  const Value y = Relu(Add(MatMul(x, w), bias));
  g.Output("y", ReduceSum(y, {0}));
  const Traffic traffic = CountTraffic(Must(g));
  const TrafficRow& products = Row(traffic, "products");
  CHECK(products.launches == 1);
  CHECK(products.read == 4 * (8 * 4 + 4 * 16));
  CHECK(products.written == 4 * 8 * 16);
  CHECK(products.flops == 2 * 8 * 4 * 16);
  const TrafficRow& elementwise = Row(traffic, "elementwise");
  CHECK(elementwise.launches == 2);
  // The sum reads the bias once, not once a row.
  CHECK(elementwise.read == 4 * (8 * 16 + 16 + 8 * 16));
  CHECK(elementwise.written == 4 * 2 * 8 * 16);
  const TrafficRow& sums = Row(traffic, "reductions");
  CHECK(sums.read == 4 * 8 * 16);
  CHECK(sums.written == 4 * 16);
  CHECK(traffic.total.launches == 4);
  CHECK(traffic.rest.launches == 3);
  CHECK(traffic.rest.moved() == elementwise.moved() + sums.moved());
  CHECK(traffic.total.moved() == traffic.rest.moved() + products.moved());
  // Most bytes first.
  CHECK(traffic.families.front().family == "elementwise");
  CHECK(traffic.total.seconds == 0);
}

TEST_CASE("views move nothing, a gather the rows that it takes") {
  GraphBuilder g("g");
  const Value table = g.Input("table", DType::kBF16, {1000, 8});
  const Value rows = Gather(table, g.Input("i", DType::kI32, {5}));
  g.Output("y", Neg(Slice(Reshape(rows, {40}), 0, 0, 10)));
  const Traffic traffic = CountTraffic(Must(g));
  CHECK(Row(traffic, "embedding").read == 2 * 5 * 8 + 4 * 5);
  CHECK(Row(traffic, "embedding").written == 2 * 5 * 8);
  CHECK(Row(traffic, "elementwise").read == 2 * 10);
  CHECK(traffic.total.launches == 2);
}

TEST_CASE("logits in scratch are moved, too") {
  // 6 rows of 10 logits: written by a product, read for the loss; the gradient reads
  // and writes them again, and two products read them.
  const Bytes logits = 4 * 6 * 10;
  GraphBuilder g("g");
  const Value x = g.Input("x", DType::kF32, {6, 3});
  const Value w = g.Input("w", DType::kF32, {10, 3});
  const Value labels = g.Input("labels", DType::kI32, {6});
  g.Output("loss", LinearCrossEntropy(x, w, labels, 2));
  const Traffic traffic = CountTraffic(Must(g));
  CHECK(Row(traffic, "cross entropy").read == logits);
  CHECK(Row(traffic, "cross entropy").written == 0);
  CHECK(Row(traffic, "products").read == 4 * (6 * 3 + 10 * 3 + 6));
  CHECK(Row(traffic, "products").written == logits + 4 * (1 + 6));
  CHECK(traffic.total.launches == 1);
}

TEST_CASE("a loop moves what its body does, as often as it runs") {
  GraphBuilder g("g");
  const Value x = g.Input("x", DType::kF32, {16});
  const LoopResults loop = Loop(g, 7, {.carried = {x}}, [](LoopBody& body) {
    body.Next(0, Neg(body.carried(0)));
  });
  g.Output("y", loop.carried[0]);
  const Traffic traffic = CountTraffic(Must(g));
  CHECK(traffic.total.launches == 7);
  CHECK(traffic.total.read == 7 * 64);
  CHECK(traffic.total.written == 7 * 64);
}

TEST_CASE("what ranks do together is a family, and no update of an optimizer") {
  GraphBuilder g("g");
  const Value w = g.Param("w", DType::kF32, {10}, Init::Zeros());
  AllGatherUpdate(w, ReduceScatter(g.Input("x", DType::kF32, {10}), 4), 4);
  const Traffic traffic = CountTraffic(Must(g));
  REQUIRE(traffic.families.size() == 1);
  const TrafficRow& row = Row(traffic, "among ranks");
  CHECK(row.launches == 2);
  // x, then the block of three and the target; the block, then the whole.
  CHECK(row.read == 4 * (10 + 10 + 3));
  CHECK(row.written == 4 * (3 + 10));
}

TEST_CASE("updates by one op that follow one another are one launch") {
  GraphBuilder g("g");
  const Value lr = g.Input("lr", DType::kF32, {});
  const auto update = [&](const char* name) {
    const Value w = g.Param(name, DType::kF32, {8});
    SgdUpdate(w, g.Input(std::string("d") + name, DType::kF32, {8}), lr,
              Value(), 0);
  };
  update("a");
  update("b");
  g.Output("y", Neg(lr));
  update("c");
  const Traffic traffic = CountTraffic(Must(g));
  CHECK(Row(traffic, "optimizer").launches == 2);
  CHECK(Row(traffic, "optimizer").written == 3 * 4 * 8);
  CHECK(traffic.total.launches == 3);
}

TEST_CASE("a launch takes what the slower of memory and arithmetic takes") {
  GraphBuilder g("g");
  const Value x = g.Input("x", DType::kBF16, {64, 64});
  g.Output("y", Neg(MatMul(x, x)));
  const Result<RatedDevice> device = ParseRatedDevice("8:2");
  REQUIRE(device.ok());
  const Traffic traffic = CountTraffic(Must(g), *device);
  // 524,288 operations at 2e9 a second; 16,384 bytes at 8e9.
  CHECK(Row(traffic, "products").seconds == doctest::Approx(262.144e-6));
  CHECK(Row(traffic, "elementwise").seconds == doctest::Approx(2.048e-6));
  CHECK(traffic.total.seconds == doctest::Approx(264.192e-6));
  CHECK(ToText(traffic).find("a bound, not a measurement, for 8:2: 8 GB/s") !=
        std::string::npos);
}

TEST_CASE("products of 16 bits have a rate of their own") {
  const auto seconds = [](DType dtype) {
    GraphBuilder g("g");
    const Value x = g.Input("x", dtype, {1024, 1024});
    g.Output("y", MatMul(x, x));
    const Result<RatedDevice> device = ParseRatedDevice("h100");
    REQUIRE(device.ok());
    return CountTraffic(Must(g), *device).total.seconds;
  };
  CHECK(seconds(DType::kF32) ==
        doctest::Approx(2.0 * 1024 * 1024 * 1024 / 67e12));
  CHECK(seconds(DType::kBF16) ==
        doctest::Approx(2.0 * 1024 * 1024 * 1024 / 989e12));
}

TEST_CASE("devices are known by name, or given by their rates") {
  for (const RatedDevice& device : RatedDevices()) {
    CHECK(!device.source.empty());
    CHECK(device.flops_16_bit > device.flops_f32);
    CHECK(ParseRatedDevice(device.name).ok());
  }
  const Result<RatedDevice> given = ParseRatedDevice("40:300.5");
  REQUIRE(given.ok());
  CHECK(given->bytes_per_second == 40e9);
  CHECK(given->flops_f32 == 300.5e9);
  for (const char* bad :
       {"", "v100", "40", "40:", ":300", "40:0", "-1:5", "40:inf", "4 0:3"}) {
    CAPTURE(bad);
    const Result<RatedDevice> device = ParseRatedDevice(bad);
    REQUIRE(!device.ok());
    CHECK(device.error().message ==
          "[traffic] there is no device \"" + std::string(bad) +
              "\"; expected one of a100, h100, h200, rtx4090, rtx5090, or "
              "rates as GB/s:GFLOP/s, such as 40:300");
  }
}

}  // namespace
}  // namespace stowage
