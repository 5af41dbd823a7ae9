#include "waves.h"

#include <cmath>
#include <string>

#include "snake.h"

namespace own {

stowage::Result<stowage::Graph> Waves(int64_t batch) {
  using stowage::Value;
  const stowage::LinearOptions wide = {.init = stowage::Init::Normal(0.2)};
  stowage::GraphBuilder g("waves");
  const Value t = g.Input("t", stowage::DType::kF32, {batch, 1});
  const Value y = g.Input("y", stowage::DType::kF32, {batch, 1});
  Value h = Linear(t, "in", 32, {.init = stowage::Init::Normal(1)});
  for (int i = 0; i < 4; ++i) {
    const std::string name = "block" + std::to_string(i);
    Value inner = LayerNorm(h, name + ".norm");
    inner = Snake(Linear(inner, name + ".up", 64, wide), /*a=*/0.5);
    h = Add(h, Linear(inner, name + ".down", 32, wide));
  }
  g.Output("loss", MeanSquaredError(Linear(h, "out", 1), y));
  return g.Finish();
}

Points MakePoints(int64_t batch) {
  Points points;
  for (int64_t i = 0; i < batch; ++i) {
    const float t = 2 * static_cast<float>(i) / static_cast<float>(batch) - 1;
    points.t.push_back(t);
    points.y.push_back(std::sin(9 * t) + std::cos(4 * t) / 2);
  }
  return points;
}

}  // namespace own
