#include "nn/unet.h"

#include <array>
#include <cmath>
#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/check_options.h"
#include "nn/conv.h"
#include "nn/layers.h"
#include "nn/model_parts.h"

namespace stowage {
namespace {

Status CheckPictures(const UNetConfig& config, const PictureShape& pictures) {
  const int64_t factor = int64_t{1} << config.depth;
  if (pictures.height % factor == 0 && pictures.width % factor == 0) return {};
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[model] pictures of ", pictures.height, " x ",
                      pictures.width, " are given for ", config.name,
                      ", which halves them ", config.depth,
                      " times; expected heights and widths that are "
                      "multiples of ",
                      factor)};
}

// Two convolutions of 3 x 3.
Value Stage(Value h, const std::string& name, int64_t channels,
            const BatchNormOptions& norm) {
  for (const int i : {1, 2}) {
    h = Conv(h, StrCat(name, ".conv", i), channels, {.padding = 1});
    h = Relu(BatchNorm(h, StrCat(name, ".bn", i), norm));
  }
  return h;
}

}  // namespace

UNetConfig UNet() { return {.name = "unet"}; }

int64_t CountParams(const UNetConfig& config, int64_t channels,
                    int64_t classes) {
  const auto stage = [](int64_t in, int64_t out) {
    return 9 * in * out + 9 * out * out + 4 * out;  // and two batch norms'
  };
  int64_t params = 0;
  int64_t in = channels;
  int64_t width = config.width;
  for (int64_t i = 0; i < config.depth; ++i) {
    // The up-convolution to this width, and the stages of both ways.
    params += stage(in, width) + 4 * 2 * width * width + width +
              stage(2 * width, width);
    in = width;
    width *= 2;
  }
  return params + stage(in, width) + config.width * classes + classes;
}

Result<Graph> BuildUNet(const UNetConfig& config, ModelPurpose purpose,
                        const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(
      CheckClassifierOptions(config.name, purpose, options));
  STOWAGE_RETURN_IF_ERROR(CheckPictures(config, *options.pictures));
  GraphBuilder g(config.name);
  const Pictures pictures = DeclareLabelledPixels(g, options);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  const BatchNormOptions norm = {.training = purpose == ModelPurpose::kTrain};
  Value h = pictures.x;
  std::vector<Value> skips;
  for (int64_t i = 0; i < config.depth; ++i) {
    h = Stage(h, StrCat("encoder.", i), config.width << i, norm);
    skips.push_back(h);
    h = MaxPool(h, {.kernel = 2});
  }
  h = dropouts.Apply(Stage(h, "bottom", config.width << config.depth, norm));
  for (int64_t i = config.depth - 1; i >= 0; --i) {
    const std::string name = StrCat("decoder.", i);
    const Value up = ConvTranspose(h, StrCat(name, ".up"), config.width << i,
                                   {.kernel = 2, .stride = 2, .bias = true});
    const std::array joined = {skips[static_cast<size_t>(i)], up};
    h = Stage(Concat(joined, 1), name, config.width << i, norm);
  }
  // As PyTorch's begins, by what it takes: the scores of few classes start small.
  const Init init =
      Init::Uniform(1 / std::sqrt(static_cast<double>(config.width)));
  const Value scores = Conv(h, "head", options.pictures->classes,
                            {.kernel = 1, .bias = true, .init = init});
  // The classes last, as the loss takes them.
  return FinishClassifier(g, Permute(scores, {0, 2, 3, 1}), pictures.labels,
                          purpose);
}

}  // namespace stowage
