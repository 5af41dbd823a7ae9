#include "formats/gzip.h"

namespace stowage {

bool IsGzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

}  // namespace stowage
