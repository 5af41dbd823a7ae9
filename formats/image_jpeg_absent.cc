// In a build without libjpeg.

#include "base/strings.h"
#include "formats/image_decoders.h"

namespace stowage::formats {

Result<Image> DecodeJpeg(std::string_view, int64_t, std::string_view origin) {
  return Error{ErrorCode::kUnsupported,
               StrCat("[jpeg] ", Quoted(origin),
                      " cannot be read: this build has no libjpeg; install "
                      "libjpeg-dev and build again")};
}

}  // namespace stowage::formats
