// In a build without libpng.

#include "base/strings.h"
#include "formats/image_decoders.h"

namespace stowage::formats {

Result<Image> DecodePng(std::string_view, int64_t, std::string_view origin) {
  return Error{ErrorCode::kUnsupported,
               StrCat("[png] ", Quoted(origin),
                      " cannot be read: this build has no libpng; install "
                      "libpng-dev and build again")};
}

}  // namespace stowage::formats
