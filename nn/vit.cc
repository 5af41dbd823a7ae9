#include "nn/vit.h"

#include <vector>

#include "base/strings.h"
#include "ir/builder.h"
#include "ir/ops.h"
#include "nn/conv_nets.h"
#include "nn/layers.h"
#include "nn/model_options.h"
#include "nn/model_parts.h"

namespace stowage {
namespace {

constexpr double kEps = 1e-6;
constexpr int64_t kWidening = 4;  // of the two linear layers of a block

int64_t Tokens(const ViTConfig& config, const ImageShape& images) {
  return 1 + (images.height / config.patch) * (images.width / config.patch);
}

class Net {
 public:
  Net(GraphBuilder& g, const ViTConfig& config, Dropouts* dropouts)
      : g_(g), config_(config), dropouts_(*dropouts) {}

  // x (B, C, H, W) -> the class token (B, width) behind the last norm.
  Value Features(Value x) const {
    Value h = dropouts_.Apply(Embed(x));
    for (int64_t i = 0; i < config_.layers; ++i) {
      h = Block(h, StrCat("encoder.layers.encoder_layer_", i));
    }
    if (!h.ok()) return h;
    const int64_t batch = h.dim(0);
    const Value first = Reshape(Slice(h, 1, 0, 1), {batch, config_.width});
    return LayerNorm(first, "encoder.ln", kEps);
  }

 private:
  // The class token and one for each patch, each with its position's: (B, T, width).
  Value Embed(Value x) const {
    const Value patches =
        Conv(x, "conv_proj", config_.width,
             {.kernel = config_.patch, .stride = config_.patch, .bias = true});
    if (!patches.ok()) return patches;
    const int64_t batch = patches.dim(0), width = config_.width;
    const int64_t count = patches.dim(2) * patches.dim(3);
    const Value rows =
        Permute(Reshape(patches, {batch, width, count}), {0, 2, 1});
    const Value token =
        g_.Param("class_token", x.dtype(), {1, 1, width}, Init::Zeros());
    const Value positions = g_.Param("encoder.pos_embedding", x.dtype(),
                                     {1, count + 1, width}, Init::Normal(0.02));
    const std::vector<Value> all = {BroadcastTo(token, {batch, 1, width}),
                                    rows};
    return Add(Concat(all, 1), positions);
  }

  Value Block(Value x, const std::string& name) const {
    const Value attended = MultiHeadAttention(
        LayerNorm(x, StrCat(name, ".ln_1"), kEps),
        StrCat(name, ".self_attention"), {.heads = config_.heads});
    const Value h = Add(x, dropouts_.Apply(attended));
    const Value wide =
        Linear(LayerNorm(h, StrCat(name, ".ln_2"), kEps),
               StrCat(name, ".mlp.0"), kWidening * config_.width);
    const Value narrow = Linear(dropouts_.Apply(GeluErf(wide)),
                                StrCat(name, ".mlp.3"), config_.width);
    const Value y = Add(h, dropouts_.Apply(narrow));
    return y.ok() ? g_.Name(name, y) : y;
  }

  GraphBuilder& g_;
  const ViTConfig& config_;
  Dropouts& dropouts_;
};

}  // namespace

ViTConfig ViTTiny() { return {.name = "vit-tiny"}; }

int64_t CountParams(const ViTConfig& config, const ImageShape& images) {
  const int64_t c = config.width;
  const auto linear = [](int64_t in, int64_t out) { return in * out + out; };
  const int64_t embedding =
      linear(images.channels * config.patch * config.patch, c) + c +
      Tokens(config, images) * c;
  const int64_t block = 2 * 2 * c + linear(c, 3 * c) + linear(c, c) +
                        linear(c, kWidening * c) + linear(kWidening * c, c);
  return embedding + config.layers * block + 2 * c + linear(c, images.classes);
}

Result<Graph> BuildViT(const ViTConfig& config, ModelPurpose purpose,
                       const ModelOptions& options) {
  STOWAGE_RETURN_IF_ERROR(
      CheckClassifierOptions(config.name, purpose, options));
  const ImageShape& shape = *options.images;
  if (shape.height % config.patch != 0 || shape.width % config.patch != 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[model] images of ", shape.height, " x ", shape.width,
               " are given for ", config.name,
               ", which cuts them into patches of ", config.patch, " x ",
               config.patch, "; expected multiples of ", config.patch)};
  }
  GraphBuilder g(config.name);
  const Images images = DeclareImages(g, options);
  Dropouts dropouts = DeclareDropouts(g, purpose, options);
  const Net net(g, config, &dropouts);
  const Value logits =
      Linear(net.Features(images.x), "heads.head", shape.classes);
  return FinishClassifier(g, logits, images.labels, purpose);
}

}  // namespace stowage
