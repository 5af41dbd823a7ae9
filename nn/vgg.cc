#include "nn/vgg.h"

#include <algorithm>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/check_options.h"
#include "nn/conv.h"
#include "nn/layers.h"
#include "nn/model_parts.h"

namespace stowage {
namespace {

constexpr int64_t kMap = 7;  // sides of what the linear layers see

// Sides of the last map where each stage leaves the half of it.
int64_t LastSide(const VggConfig& config, int64_t side) {
  return side >> config.stages.size();
}

Status CheckPictures(const VggConfig& config, const PictureShape& pictures) {
  const int64_t height = LastSide(config, pictures.height);
  const int64_t width = LastSide(config, pictures.width);
  const auto fits = [](int64_t side) {
    return side == 1 || (side > 0 && side % kMap == 0);
  };
  if (fits(height) && fits(width)) return {};
  const int64_t factor = int64_t{1} << config.stages.size();
  return Error{
      ErrorCode::kInvalidArgument,
      StrCat("[model] pictures of ", pictures.height, " x ", pictures.width,
             " leave ", config.name, " a last map of ", height, " x ", width,
             ", which equal windows do not bring to ", kMap, " x ", kMap,
             "; expected sides of ", factor, " or a multiple of ",
             kMap * factor)};
}

// h (N, C, H, W) -> (N, C, 7, 7): the average pool of torchvision, whose windows
// repeat a single position.
Value ToMap(Value h) {
  if (!h.ok()) return h;
  const Axes sides = {std::min(h.dim(2), kMap), std::min(h.dim(3), kMap)};
  const Value pooled = AdaptiveAvgPool(h, sides);
  return BroadcastTo(pooled, {h.dim(0), h.dim(1), kMap, kMap});
}

}  // namespace

VggConfig Vgg19() {
  return {.name = "vgg19",
          .stages = {{64, 64},
                     {128, 128},
                     {256, 256, 256, 256},
                     {512, 512, 512, 512},
                     {512, 512, 512, 512}}};
}

int64_t CountParams(const VggConfig& config, int64_t channels,
                    int64_t classes) {
  int64_t params = 0;
  int64_t in = channels;
  for (const std::vector<int64_t>& stage : config.stages) {
    for (const int64_t out : stage) {
      params += 9 * in * out + out;
      in = out;
    }
  }
  const auto linear = [](int64_t from, int64_t to) { return from * to + to; };
  return params + linear(in * kMap * kMap, config.hidden) +
         linear(config.hidden, config.hidden) + linear(config.hidden, classes);
}

Result<Graph> BuildVgg(const VggConfig& config, ModelPurpose purpose,
                       const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(
      CheckClassifierOptions(config.name, purpose, options));
  STOWAGE_RETURN_IF_ERROR(CheckPictures(config, *options.pictures));
  GraphBuilder g(config.name);
  const Pictures pictures = DeclarePictures(g, options);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  Value h = pictures.x;
  int layer = 0;  // as torchvision counts: relus and pools too
  for (const std::vector<int64_t>& stage : config.stages) {
    for (const int64_t channels : stage) {
      h = Relu(Conv(h, StrCat("features.", layer), channels,
                    {.padding = 1, .bias = true}));
      layer += 2;
    }
    h = MaxPool(h, {.kernel = 2});
    ++layer;
  }
  h = Reshape(ToMap(h), {*options.batch, -1});
  const Init init = Init::Normal(0.01);  // torchvision's
  for (const char* name : {"classifier.0", "classifier.3"}) {
    h = dropouts.Apply(Relu(Linear(h, name, config.hidden, {.init = init})));
  }
  const Value logits =
      Linear(h, "classifier.6", options.pictures->classes, {.init = init});
  return FinishClassifier(g, logits, pictures.labels, purpose);
}

}  // namespace stowage
