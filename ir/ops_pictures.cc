// The functions of ir/ops.h that pad, resize and rearrange pictures.

#include <cstdint>
#include <string_view>

#include "base/strings.h"
#include "ir/op_kind.h"
#include "ir/ops.h"

namespace stowage {
namespace {

Value FailPicture(std::string_view name, Value x, std::string_view expected,
                  SourceLoc loc) {
  return x.builder()->Fail(
      StrCat("[", name, "] x ", Quoted(x.builder()->info(x).name), " is ",
             x.type().ToString(), "; expected ", expected),
      loc);
}

// x (N, C, H, W) with C = block^2 D, which stands for (b, b, D) or (D, b, b).
Value BlocksToSpace(std::string_view name, Value x, int64_t block,
                    bool blocks_first, SourceLoc loc) {
  if (!x.ok()) return x;
  constexpr int64_t kLargest = 1 << 15;
  if (x.rank() != 4 || block < 1 || block > kLargest ||
      x.dim(1) % (block * block) != 0) {
    return FailPicture(name, x,
                       StrCat("(N, C, H, W), C a multiple of the square of "
                              "the block, ",
                              block, ", which is 1 to ", kLargest),
                       loc);
  }
  const int64_t depth = x.dim(1) / (block * block);
  const int64_t h = x.dim(2);
  const int64_t w = x.dim(3);
  const Value cut =
      blocks_first
          ? Permute(Reshape(x, {x.dim(0), block, block, depth, h, w}, loc),
                    {0, 3, 4, 1, 5, 2}, loc)
          : Permute(Reshape(x, {x.dim(0), depth, block, block, h, w}, loc),
                    {0, 1, 4, 2, 5, 3}, loc);
  return Reshape(cut, {x.dim(0), depth, h * block, w * block}, loc);
}

}  // namespace

Value Pad(Value x, const Axes& before, const Axes& after, PadMode mode,
          double value, SourceLoc loc) {
  return Apply(OpKind::kPad, {x},
               {{"before", before},
                {"after", after},
                {"mode", static_cast<int64_t>(mode)},
                {"value", value}},
               loc);
}

Value Resize(Value x, const Axes& sizes, ResizeMode mode, bool align_corners,
             SourceLoc loc) {
  return Apply(OpKind::kResize, {x},
               {{"sizes", sizes},
                {"mode", static_cast<int64_t>(mode)},
                {"align_corners", int64_t{align_corners}}},
               loc);
}

Value DepthToSpace(Value x, int64_t block, SourceLoc loc) {
  return BlocksToSpace("depth_to_space", x, block, true, loc);
}

Value PixelShuffle(Value x, int64_t block, SourceLoc loc) {
  return BlocksToSpace("pixel_shuffle", x, block, false, loc);
}

Value SpaceToDepth(Value x, int64_t block, SourceLoc loc) {
  if (!x.ok()) return x;
  if (x.rank() != 4 || block < 1 || x.dim(2) % block != 0 ||
      x.dim(3) % block != 0) {
    return FailPicture(
        "space_to_depth", x,
        StrCat("(N, C, H, W), H and W multiples of the block, ", block), loc);
  }
  const int64_t n = x.dim(0);
  const int64_t c = x.dim(1);
  const int64_t h = x.dim(2) / block;
  const int64_t w = x.dim(3) / block;
  const Value cut = Permute(Reshape(x, {n, c, h, block, w, block}, loc),
                            {0, 3, 5, 1, 2, 4}, loc);
  return Reshape(cut, {n, block * block * c, h, w}, loc);
}

}  // namespace stowage
