#include "formats/image.h"

#include <csetjmp>
#include <cstdio>
#ifdef STOWAGE_HAS_JPEG
#include <jpeglib.h>  // requires <cstdio> before it
#endif
#ifdef STOWAGE_HAS_PNG
#include <png.h>
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/memory.h"
#include "base/result.h"
#include "base/strings.h"

namespace stowage {
namespace {

constexpr int64_t kMaxPixels = 268'435'456;

// Checks a size that a file declares, and allocates the image.
[[maybe_unused]] Result<Image> MakeImage(int64_t channels, int64_t height,
                                         int64_t width,
                                         std::string_view origin) {
  if (height < 1 || width < 1 || height > kMaxPixels / width) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[image] ", Quoted(origin), " is ", height, " x ",
                        width, " pixels; expected 1 to ", kMaxPixels)};
  }
  Image image{channels, height, width, {}};
  const Bytes bytes = channels * height * width;
  STOWAGE_RETURN_IF_ERROR(
      CheckMemory(StrCat("decoding ", Quoted(origin)), bytes));
  image.pixels.resize(static_cast<size_t>(bytes));
  return image;
}

// The luma of a pixel as in Pillow: 0.299 R + 0.587 G + 0.114 B in 16-bit fixed point.
[[maybe_unused]] uint8_t LumaOf(const uint8_t* rgb) {
  return static_cast<uint8_t>(
      (19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 0x8000u) >> 16);
}

// Stores row `y`, whose channels are interleaved, in planes.
[[maybe_unused]] void StoreRow(const uint8_t* row, int64_t y, Image* image) {
  const int64_t plane = image->height * image->width;
  uint8_t* to = image->pixels.data() + y * image->width;
  for (int64_t x = 0; x < image->width; ++x) {
    for (int64_t c = 0; c < image->channels; ++c) to[c * plane + x] = *row++;
  }
}

#ifdef STOWAGE_HAS_PNG

struct PngImage {
  png_image png = {};
  PngImage() { png.version = PNG_IMAGE_VERSION; }
  ~PngImage() { png_image_free(&png); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
};

// The file without its colour-space chunks, which libpng would apply to the pixels; Pillow
// ignores them. Bytes that are not a chunk stay, for libpng to refuse.
std::string WithoutColours(std::string_view bytes) {
  constexpr size_t kSignature = 8, kFrame = 12;  // length, name and checksum
  std::string kept(bytes.substr(0, kSignature));
  std::string_view rest = bytes.substr(std::min(kSignature, bytes.size()));
  while (rest.size() >= kFrame) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i) {
      length = length << 8 | static_cast<unsigned char>(rest[i]);
    }
    if (length > rest.size() - kFrame) break;
    const std::string_view name = rest.substr(4, 4);
    const std::string_view chunk = rest.substr(0, length + kFrame);
    if (name != "gAMA" && name != "cHRM" && name != "sRGB" && name != "iCCP") {
      kept += chunk;
    }
    rest.remove_prefix(chunk.size());
  }
  return kept.append(rest);
}

// Decodes by libpng's simplified API.
Result<Image> DecodePng(std::string_view bytes, int64_t channels,
                        std::string_view origin) {
  PngImage holder;
  png_image& png = holder.png;
  const auto fail = [&] {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[png] ", Quoted(origin), ", of ", bytes.size(),
                        " bytes, ends early or is damaged: ", png.message)};
  };
  const std::string file = WithoutColours(bytes);
  if (!png_image_begin_read_from_memory(&png, file.data(), file.size())) {
    return fail();
  }
  // Deflate expands a byte to at most 1,032 (RFC 1951), and a pixel has at least a bit.
  constexpr uint64_t kMaxBytes = 1032;
  const uint64_t bits = uint64_t{png.width} * png.height;
  if (bits / 8 > kMaxBytes * file.size()) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[png] ", Quoted(origin), " says that it is ", png.height, " x ",
               png.width, " pixels, which a file of ", bytes.size(),
               " bytes cannot hold")};
  }
  png.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // 16 bits are only scaled
  STOWAGE_ASSIGN_OR_RETURN(Image image,
                           MakeImage(channels, png.height, png.width, origin));
  const bool to_grey =
      channels == 1 && (png.format & PNG_FORMAT_FLAG_COLOR) != 0;
  // Alpha is dropped without blending, as by Pillow's convert.
  const bool has_alpha = (png.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  const bool is_grey = channels == 1 && !to_grey;
  png.format = is_grey ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
  if (has_alpha) png.format |= PNG_FORMAT_FLAG_ALPHA;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(png));
  if (!png_image_finish_read(&png, nullptr, pixels.data(), 0, nullptr)) {
    return fail();
  }
  if (has_alpha) {
    const size_t colours = is_grey ? 1 : 3;
    const size_t count = pixels.size() / (colours + 1);
    for (size_t i = 0; i < count; ++i) {
      for (size_t c = 0; c < colours; ++c) {
        pixels[i * colours + c] = pixels[i * (colours + 1) + c];
      }
    }
    pixels.resize(count * colours);
  }
  if (to_grey) {
    for (size_t i = 0; i < pixels.size() / 3; ++i) {
      pixels[i] = LumaOf(&pixels[3 * i]);
    }
  }
  const int64_t row = image.width * channels;
  for (int64_t y = 0; y < image.height; ++y) {
    StoreRow(pixels.data() + y * row, y, &image);
  }
  return image;
}

#else

Result<Image> DecodePng(std::string_view, int64_t, std::string_view origin) {
  return UnsupportedError("[png] ", Quoted(origin),
                          " cannot be read: this build has no libpng; install "
                          "libpng-dev and build again");
}

#endif  // STOWAGE_HAS_PNG

#ifdef STOWAGE_HAS_JPEG

// libjpeg reports errors by longjmp, so objects with destructors are created outside of the
// calls that may jump. A warning, as for a truncated file, is an error.
struct Decoder {
  jpeg_error_mgr errors = {};
  jpeg_decompress_struct info = {};
  std::jmp_buf escape = {};
  std::array<char, JMSG_LENGTH_MAX> message = {};
};

[[noreturn]] void Escape(j_common_ptr info) {
  auto* decoder = static_cast<Decoder*>(info->client_data);
  info->err->format_message(info, decoder->message.data());
  std::longjmp(decoder->escape, 1);
}

void OnMessage(j_common_ptr info, int level) {
  if (level < 0) Escape(info);
}

// Reads the header. Returns false on an error.
bool Begin(std::string_view bytes, int64_t channels, Decoder* decoder) {
  jpeg_decompress_struct* const info = &decoder->info;
  if (setjmp(decoder->escape) != 0) return false;
  jpeg_create_decompress(info);
  info->client_data = decoder;
  jpeg_mem_src(info, reinterpret_cast<const unsigned char*>(bytes.data()),
               static_cast<unsigned long>(bytes.size()));
  jpeg_read_header(info, TRUE);
  const bool has_ink =
      info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
  const bool stays_grey =
      channels == 1 && info->jpeg_color_space == JCS_GRAYSCALE;
  info->out_color_space = has_ink      ? JCS_CMYK
                          : stays_grey ? JCS_GRAYSCALE
                                       : JCS_RGB;
  info->dct_method = JDCT_ISLOW;
  return true;
}

// Converts a row of inverted CMYK, as JPEG files hold it, to RGB or grey in place, as
// Pillow's convert does (libImaging/Convert.c).
void MixInks(uint8_t* row, const Image& image) {
  for (int64_t x = 0; x < image.width; ++x) {
    const uint8_t* const ink = row + 4 * x;
    const int white = ink[3];
    std::array<uint8_t, 3> rgb;
    for (size_t i = 0; i < 3; ++i) {
      const int product = (255 - ink[i]) * white + 128;
      const int taken = ((product >> 8) + product) >> 8;
      rgb[i] = static_cast<uint8_t>(std::max(white - taken, 0));
    }
    if (image.channels == 1) {
      row[x] = LumaOf(rgb.data());
    } else {
      std::ranges::copy(rgb, row + 3 * x);
    }
  }
}

bool ReadRows(uint8_t* row, Image* image, Decoder* decoder) {
  jpeg_decompress_struct* const info = &decoder->info;
  if (setjmp(decoder->escape) != 0) return false;
  jpeg_start_decompress(info);
  while (info->output_scanline < info->output_height) {
    const int64_t y = info->output_scanline;
    jpeg_read_scanlines(info, &row, 1);
    if (info->out_color_space == JCS_CMYK) MixInks(row, *image);
    if (info->out_color_space == JCS_RGB && image->channels == 1) {
      // The file's luma differs from the luma of the rounded colours.
      for (int64_t x = 0; x < image->width; ++x) row[x] = LumaOf(row + 3 * x);
    }
    StoreRow(row, y, image);
  }
  jpeg_finish_decompress(info);
  return true;
}

// Decodes by libjpeg or libjpeg-turbo.
Result<Image> DecodeJpeg(std::string_view bytes, int64_t channels,
                         std::string_view origin) {
  if (bytes.size() > std::numeric_limits<uint32_t>::max()) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[jpeg] ", Quoted(origin), " has ", bytes.size(),
                        " bytes; at most 4294967295 are read")};
  }
  Decoder decoder;
  decoder.info.err = jpeg_std_error(&decoder.errors);
  decoder.info.client_data = &decoder;
  decoder.errors.error_exit = Escape;
  decoder.errors.emit_message = OnMessage;
  const auto decode = [&]() -> Result<Image> {
    const auto fail = [&] {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[jpeg] ", Quoted(origin), ", of ", bytes.size(),
                 " bytes, ends early or is damaged: ", decoder.message.data())};
    };
    if (!Begin(bytes, channels, &decoder)) return fail();
    STOWAGE_ASSIGN_OR_RETURN(Image image,
                             MakeImage(channels, decoder.info.image_height,
                                       decoder.info.image_width, origin));
    std::vector<uint8_t> row(static_cast<size_t>(4 * image.width));
    if (!ReadRows(row.data(), &image, &decoder)) return fail();
    return image;
  };
  Result<Image> image = decode();
  jpeg_destroy_decompress(&decoder.info);
  return image;
}

#else

Result<Image> DecodeJpeg(std::string_view, int64_t, std::string_view origin) {
  return Error{ErrorCode::kUnsupported,
               StrCat("[jpeg] ", Quoted(origin),
                      " cannot be read: this build has no libjpeg; install "
                      "libjpeg-dev and build again")};
}

#endif  // STOWAGE_HAS_JPEG

}  // namespace

Result<Image> DecodeImage(std::string_view bytes, int64_t channels,
                          std::string_view origin) {
  STOWAGE_CHECK(channels == 1 || channels == 3);
  if (bytes.starts_with("\x89PNG")) {
    return DecodePng(bytes, channels, origin);
  }
  if (bytes.starts_with("\xff\xd8\xff")) {
    return DecodeJpeg(bytes, channels, origin);
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[image] ", Quoted(origin), ", of ", bytes.size(),
                      " bytes, begins neither as a PNG nor as a JPEG")};
}

}  // namespace stowage
