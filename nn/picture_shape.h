#ifndef STOWAGE_NN_PICTURE_SHAPE_H_
#define STOWAGE_NN_PICTURE_SHAPE_H_

// What a classifier of pictures looks at, and how its pictures are varied.
//
//   PictureShape fashion{.channels = 1, .height = 28, .width = 28, .classes = 10};

#include <cstdint>

namespace stowage {

struct PictureShape {
  int64_t channels = 1, height = 1, width = 1;
  int64_t classes = 2;

  /// Numbers of one picture.
  int64_t size() const { return channels * height * width; }
  friend bool operator==(const PictureShape&, const PictureShape&) = default;
};

/// Variations of a picture when it is drawn for training.
struct Augmentation {
  int64_t pad =
      0;  // zeros on each side, of which a crop of the old size is cut
  bool flip = false;  // left and right, every second time
};

}  // namespace stowage

#endif  // STOWAGE_NN_PICTURE_SHAPE_H_
