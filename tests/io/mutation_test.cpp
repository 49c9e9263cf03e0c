// SPDX-License-Identifier: GPL-2.0-or-later
// More than 20,000 damaged and hostile files: the reader accepts or refuses each with an
// InputError, gives back all memory, and never takes more than a small multiple of the file's size.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/error.h"
#include "src/io/byte_source.h"
#include "src/io/checkpoint.h"
#include "src/io/zip_reader.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/checkpoint_reading.h"
#include "tests/support/checkpoint_writer.h"

namespace dpa4::io {
namespace {

using dpa4::testing::CheckpointWriter;
using dpa4::testing::Py;
using dpa4::testing::tiny_params;
using dpa4::testing::tiny_state;
using dpa4::testing::tiny_tree;

constexpr int kDamagedFiles = 5000;
constexpr int kDamagedDirectories = 5000;
constexpr int kDamagedTrees = 10000;
constexpr int kDamagedGoldenFiles = 600;
static_assert(kDamagedFiles + kDamagedDirectories + kDamagedTrees + kDamagedGoldenFiles >= 20000);

/// What a read may hold at its peak. Every byte of the object tree can become an empty container
/// with its handle; of everything else there are at most a few copies.
std::size_t allowed_bytes(std::size_t file_size, std::size_t tree_size) {
  return 8 * file_size + 64 * tree_size + (256u << 10);
}

/// Reads the bytes; only acceptance and InputError are fine. Returns the peak of memory it took.
std::size_t survive(const std::vector<std::byte>& bytes, std::size_t tree_size,
                    const std::string& what, const CheckpointOptions& options = {}) {
  const std::size_t before = testing::live_bytes();
  testing::reset_peak_bytes();
  try {
    testing::read_bytes(bytes, options);
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()).rfind("model.pt: ", 0), 0u) << what << ": " << error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << what << ": " << error.what();
  }
  const std::size_t peak = testing::peak_bytes() - before;
  EXPECT_EQ(testing::live_bytes(), before) << what << ": memory was not given back";
  EXPECT_LE(peak, allowed_bytes(bytes.size(), tree_size)) << what;
  return peak;
}

/// A checkpoint that uses everything a reader has to follow: two heads, averages, adapters,
/// optimizer.
struct Sample {
  CheckpointWriter writer;
  Py tree;
  std::vector<char> pickle;

  explicit Sample(bool rich) {
    tree = rich ? rich_tree() : tiny_tree(writer, tiny_params());
    pickle = testing::pickle(tree, rich ? 4 : 2);
  }

  Py rich_tree() {
    const Py params = tiny_params();
    Py state = tiny_state(writer, params, "A");
    const std::string mix = "model.A.atomic_model.descriptor.blocks.0.so2_conv.pre_focus_mix.";
    state[mix + "A_by_l"] = writer.add(std::vector<float>(8, 0.5f), {2, 1, 4});
    state[mix + "B_by_l"] = writer.add(std::vector<float>(8, 0.5f), {2, 4, 1});
    state["_extra_state"] =
        Py::dict({{"model_params", Py::dict({{"model_dict", Py::dict({{"A", params}})}})}});
    const Py moment = writer.add(std::vector<float>(64, 1), {64});
    return Py::dict({{"model", state},
                     {"optimizer", Py::dict({{"state", Py::list({moment, moment})}})},
                     {"ema", Py::dict({{"model", Py::dict({{"A.x", moment}})}})}});
  }

  CheckpointOptions options() const {
    CheckpointOptions chosen;
    if (tree.items.size() > 2) chosen.head = "A";
    return chosen;
  }
};

/// Random damage, the same in every run.
class Damage {
 public:
  explicit Damage(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return n == 0 ? 0 : random_() % n; }

  /// A length, count or offset that is likely to be mishandled.
  std::uint64_t hostile_number() {
    constexpr std::uint64_t kNumbers[] = {
        0,          1,          2,          0x7f,       0x80,       0xff,       0x7fff, 0xffff,
        0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff, 1ull << 32, 1ull << 40, ~0ull};
    return below(4) == 0 ? random_() : kNumbers[below(std::size(kNumbers))];
  }

  /// One to four edits of bytes [from, to) of `bytes`.
  template <class Byte>
  void edit(std::vector<Byte>& bytes, std::size_t from, std::size_t to) {
    const std::size_t edits = 1 + below(4);
    for (std::size_t i = 0; i < edits && to > from; ++i) {
      const std::size_t at = from + below(to - from);
      switch (below(3)) {
        case 0:
          bytes[at] = static_cast<Byte>(static_cast<int>(bytes[at]) ^ 1 << below(8));
          break;
        case 1:
          bytes[at] = static_cast<Byte>(below(256));
          break;
        default: {
          const std::uint64_t number = hostile_number();
          const std::size_t width = std::size_t{1} << below(4);
          for (std::size_t k = 0; k < width && at + k < bytes.size(); ++k) {
            bytes[at + k] = static_cast<Byte>(number >> 8 * k & 0xff);
          }
        }
      }
    }
  }

  /// Removes, repeats or cuts off a stretch.
  template <class Byte>
  void reshape(std::vector<Byte>& bytes) {
    if (bytes.empty()) return;
    const std::size_t at = below(bytes.size());
    const std::size_t n = std::min(1 + below(64), bytes.size() - at);
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const std::vector<Byte> piece(first, first + static_cast<std::ptrdiff_t>(n));
    switch (below(3)) {
      case 0:
        bytes.erase(first, first + static_cast<std::ptrdiff_t>(n));
        break;
      case 1:
        bytes.insert(first, piece.begin(), piece.end());
        break;
      default:
        bytes.resize(at);
    }
  }

  /// Replaces single bytes by opcodes of the pickle format.
  void swap_opcodes(std::vector<char>& pickle) {
    static const std::string kOpcodes =
        "(.012BCGJKMNQRTUX]abcdehjlqrstu})"
        "\x80\x81\x82\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91"
        "\x92\x93\x94\x95\x96";
    const std::size_t swaps = 1 + below(6);
    for (std::size_t i = 0; i < swaps && !pickle.empty(); ++i) {
      const char opcode = kOpcodes[below(kOpcodes.size())];
      const std::size_t at = below(pickle.size());
      if (below(3) == 0) {
        pickle.insert(pickle.begin() + static_cast<std::ptrdiff_t>(at), opcode);
      } else {
        pickle[at] = opcode;
      }
    }
  }

 private:
  std::mt19937 random_;
};

class DamagedFiles : public ::testing::TestWithParam<bool> {
 protected:
  Sample sample_{GetParam()};
  std::vector<std::byte> whole_ = sample_.writer.finish(sample_.pickle);
};

TEST_P(DamagedFiles, AnyBytes) {
  for (int i = 0; i < kDamagedFiles / 2; ++i) {
    Damage damage(1000 + i);
    std::vector<std::byte> bytes = whole_;
    if (damage.below(4) == 0) {
      damage.reshape(bytes);
    } else {
      damage.edit(bytes, 0, bytes.size());
    }
    survive(bytes, bytes.size(), "file " + std::to_string(i), sample_.options());
  }
}

TEST_P(DamagedFiles, ZipDirectoryAndHeaders) {
  // Where the records of the archive lie: the directory and the end record stand behind the
  // content.
  const auto source = view_bytes(whole_);
  const ZipReader zip(*source, "model.pt");
  std::size_t content_end = 0;
  std::vector<std::size_t> headers;
  for (const auto& [name, member] : zip.members()) {
    headers.push_back(member.header_offset);
    content_end =
        std::max<std::size_t>(content_end, member.header_offset + 30 + name.size() + member.size);
  }
  for (int i = 0; i < kDamagedDirectories / 2; ++i) {
    Damage damage(2000 + i);
    std::vector<std::byte> bytes = whole_;
    switch (damage.below(3)) {
      case 0:
        damage.edit(bytes, bytes.size() - 22, bytes.size());
        break;
      case 1:
        damage.edit(bytes, content_end, bytes.size() - 22);
        break;
      default: {
        const std::size_t header = headers[damage.below(headers.size())];
        damage.edit(bytes, header, header + 30);
      }
    }
    survive(bytes, bytes.size(), "directory " + std::to_string(i), sample_.options());
  }
}

TEST_P(DamagedFiles, ObjectTree) {
  for (int i = 0; i < kDamagedTrees / 2; ++i) {
    Damage damage(3000 + i);
    std::vector<char> pickle = sample_.pickle;
    switch (damage.below(4)) {
      case 0:
        damage.edit(pickle, 2, pickle.size());
        break;
      case 1:
        damage.reshape(pickle);
        break;
      case 2:
        damage.swap_opcodes(pickle);
        break;
      default:
        damage.swap_opcodes(pickle);
        damage.reshape(pickle);
        damage.edit(pickle, 0, pickle.size());
    }
    const std::size_t tree_size = pickle.size();
    survive(sample_.writer.finish(std::move(pickle)), tree_size, "tree " + std::to_string(i),
            sample_.options());
  }
}

INSTANTIATE_TEST_SUITE_P(Samples, DamagedFiles, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Rich" : "Plain"; });

TEST(DamagedDirectory, ASizeIsNotBelievedBeforeItIsChecked) {
  // data.pkl announces 200 MB; once as stored, once as compressed.
  Sample sample(false);
  const std::vector<std::byte> whole = sample.writer.finish(sample.pickle);
  const std::string name = "archive/data.pkl";
  const auto* text = reinterpret_cast<const char*>(whole.data());
  const std::size_t entry = std::string_view(text, whole.size()).rfind(name) - 46;
  for (unsigned char method : {0, 8}) {
    std::vector<std::byte> bytes = whole;
    bytes[entry + 10] = std::byte{method};
    const std::uint32_t size = 200'000'000;
    std::memcpy(&bytes[entry + 24], &size, sizeof size);
    survive(bytes, sample.pickle.size(), "announced size");
    EXPECT_NE(testing::refusal_of(bytes).find(name), std::string::npos);
  }
}

TEST(DamagedGoldenFile, AnyBytes) {
  for (const char* name : {"nano", "pt_expt/nano"}) {
    std::ifstream in(std::string(DPA4_SOURCE_DIR) + "/tests/data/golden/" + name + ".pt",
                     std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    ASSERT_FALSE(text.empty());
    for (int i = 0; i < kDamagedGoldenFiles / 2; ++i) {
      Damage damage(4000 + i);
      std::vector<std::byte> bytes(text.size());
      std::memcpy(bytes.data(), text.data(), text.size());
      switch (damage.below(4)) {
        case 0:
          damage.reshape(bytes);
          break;
        case 1:
          damage.edit(bytes, 0, 32'000);
          break;  // the object tree
        default:
          damage.edit(bytes, bytes.size() - 24'000, bytes.size());  // the directory
      }
      survive(bytes, 32'000, std::string(name) + " " + std::to_string(i));
    }
  }
}

// ----- hostile options and arrays, one at a time

const std::vector<Py>& hostile_values() {
  static const std::vector<Py> values = {Py(),
                                         true,
                                         false,
                                         0,
                                         -1,
                                         1000,
                                         INT32_MAX,
                                         INT32_MIN,
                                         std::int64_t{1} << 40,
                                         INT64_MAX,
                                         INT64_MIN,
                                         0.5,
                                         -0.0,
                                         1e300,
                                         "",
                                         "none",
                                         "\xff\xfe",
                                         std::string(70'000, 'x'),
                                         Py::list(),
                                         Py::dict(),
                                         Py::tuple(),
                                         Py::list({-1}),
                                         Py::list({0, 0}),
                                         Py::list({INT32_MAX, 3, 2}),
                                         Py::list({20, 20, 20}),
                                         Py::list({Py::list({0, 1})}),
                                         Py::list(std::vector<Py>(3000, 1)),
                                         Py::list(std::vector<Py>(3000, "C")),
                                         Py::global("some.module", "name"),
                                         Py::call(Py::global("some.module", "name"), {})};
  return values;
}

/// Every option the reader looks at.
const std::vector<std::string>& option_names() {
  static const std::vector<std::string> names = {"rcut",
                                                 "env_exp",
                                                 "channels",
                                                 "basis_type",
                                                 "n_radial",
                                                 "radial_mlp",
                                                 "edge_norm",
                                                 "use_env_seed",
                                                 "edge_cartesian",
                                                 "node_cartesian",
                                                 "lmax",
                                                 "l_schedule",
                                                 "mmax",
                                                 "kmax",
                                                 "m_schedule",
                                                 "extra_node_l",
                                                 "n_blocks",
                                                 "so2_norm",
                                                 "mixing_layers",
                                                 "so2_layers",
                                                 "so2_attn_res",
                                                 "radial_so2_mode",
                                                 "radial_so2_rank",
                                                 "n_focus",
                                                 "focus_dim",
                                                 "n_atten_head",
                                                 "atten_f_mix",
                                                 "atten_v_proj",
                                                 "atten_o_proj",
                                                 "ffn_neurons",
                                                 "grid_mlp",
                                                 "grid_branch",
                                                 "ffn_blocks",
                                                 "sandwich_norm",
                                                 "mlp_bias",
                                                 "layer_scale",
                                                 "full_attn_res",
                                                 "block_attn_res",
                                                 "s2_activation",
                                                 "ffn_so3_grid",
                                                 "node_wise_s2",
                                                 "node_wise_so3",
                                                 "message_node_s2",
                                                 "message_node_so3",
                                                 "so3_readout",
                                                 "readout_layers",
                                                 "lebedev_quadrature",
                                                 "activation_function",
                                                 "glu_activation",
                                                 "add_chg_spin_ebd",
                                                 "default_chg_spin",
                                                 "exclude_types",
                                                 "precision",
                                                 "eps",
                                                 "type",
                                                 "neuron",
                                                 "numb_fparam",
                                                 "numb_aparam",
                                                 "default_fparam",
                                                 "use_aparam_as_mask",
                                                 "dim_case_embd",
                                                 "case_film_embd",
                                                 "atom_ener",
                                                 "bias_out",
                                                 "vacuum_ref",
                                                 "type_map",
                                                 "pair_exclude_types",
                                                 "atom_exclude_types",
                                                 "bridging_method",
                                                 "bridging_r_inner",
                                                 "spin",
                                                 "models",
                                                 "weights",
                                                 "preset_out_bias",
                                                 "descriptor",
                                                 "fitting_net",
                                                 "model_dict",
                                                 "use_srtab"};
  return names;
}

TEST(HostileOptions, EveryOptionWithEveryValue) {
  for (const std::string& name : option_names()) {
    for (const Py& value : hostile_values()) {
      CheckpointWriter writer;
      Py tree = tiny_tree(writer, tiny_params());
      Py& params = tree["model"]["_extra_state"]["model_params"];
      if (params["descriptor"].kind == Py::Kind::kDict) params["descriptor"][name] = value;
      params["fitting_net"][name] = value;
      if (name != "type") params[name] = value;
      std::vector<char> pickle = testing::pickle(tree);
      const std::size_t tree_size = pickle.size();
      survive(writer.finish(std::move(pickle)), tree_size, name);
    }
  }
}

TEST(HostileArrays, EveryNumberOfAView) {
  const std::vector<std::int64_t> numbers = {
      0,  1,      2, 3, 12, 13, -1, 1000, INT32_MAX, INT64_MAX, INT64_MIN, std::int64_t{1} << 32,
      36, 1 << 20};
  const std::string key =
      "model.Default.atomic_model.descriptor.type_embedding.adam_type_embedding";
  for (int field = 0; field < 6; ++field) {
    for (std::int64_t number : numbers) {
      std::int64_t f[6] = {12, 0, 3, 4, 4, 1};  // numel, offset, shape, stride
      f[field] = number;
      CheckpointWriter writer;
      Py tree = tiny_tree(writer, tiny_params());
      const Py storage = writer.add_storage(std::vector<char>(48), "FloatStorage", f[0]);
      tree["model"][key] = CheckpointWriter::view(storage, f[1], {f[2], f[3]}, {f[4], f[5]});
      std::vector<char> pickle = testing::pickle(tree);
      const std::size_t tree_size = pickle.size();
      survive(writer.finish(std::move(pickle)), tree_size, std::to_string(field));
    }
  }
}

TEST(HostileArrays, ManyArraysThatShareOneStorage) {
  // 40 MB of weights in a file of 4 MB, by views of one storage: refused before they are made.
  CheckpointWriter writer;
  Py params = tiny_params();
  params["descriptor"]["channels"] = 256;
  params["descriptor"]["n_blocks"] = 6;
  const Py honest = tiny_state(writer, params);
  CheckpointWriter small;
  const Py storage = small.add_storage(std::vector<char>(4 << 20), "FloatStorage", 1 << 20);
  Py state = Py::dict();
  for (std::size_t i = 0; i < honest.items.size(); i += 2) {
    const Py& shape = honest.items[i + 1].items[3];
    const Py& stride = honest.items[i + 1].items[4];
    std::vector<std::int64_t> extents, steps;
    for (const Py& item : shape.items) extents.push_back(item.number);
    for (const Py& item : stride.items) steps.push_back(item.number);
    state[honest.items[i].text] = CheckpointWriter::view(storage, 0, extents, steps);
  }
  state.erase("model.Default.atomic_model.descriptor.version_tensor");
  state["_extra_state"] = Py::dict({{"model_params", params}});
  std::vector<char> pickle = testing::pickle(Py::dict({{"model", state}}));
  const std::size_t tree_size = pickle.size();
  const std::vector<std::byte> bytes = small.finish(std::move(pickle));
  survive(bytes, tree_size, "shared");
  EXPECT_NE(testing::refusal_of(bytes).find("larger than the file"), std::string::npos)
      << testing::refusal_of(bytes);
}

// ----- hostile object trees

struct Bomb {
  const char* name;
  std::string (*make)();
};

class HostileTrees : public ::testing::TestWithParam<Bomb> {};

TEST_P(HostileTrees, CostLittle) {
  const std::string text = GetParam().make();
  CheckpointWriter writer;
  survive(writer.finish(std::vector<char>(text.begin(), text.end())), text.size(), GetParam().name);
}

std::string repeat(const std::string& text, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += text;
  return out;
}

const std::string kStart = "\x80\x02";
INSTANTIATE_TEST_SUITE_P(
    All, HostileTrees,
    ::testing::Values(
        Bomb{"Lists", [] { return kStart + std::string(500'000, ']') + "."; }},
        Bomb{"Dicts", [] { return kStart + std::string(500'000, '}') + "."; }},
        Bomb{"Marks", [] { return kStart + std::string(500'000, '(') + "."; }},
        Bomb{"NestedTuples", [] { return kStart + "N" + std::string(500'000, '\x85') + "."; }},
        Bomb{"NestedLists",
             [] { return kStart + std::string(250'000, ']') + std::string(249'999, 'a') + "."; }},
        Bomb{"Copies", [] { return kStart + "]" + std::string(500'000, '2') + "."; }},
        Bomb{"Memoized", [] { return kStart + "N" + std::string(500'000, '\x94') + "."; }},
        Bomb{"SparseMemo",
             [] {
               std::string out = kStart + "N";
               for (std::uint32_t i = 0; i < 100'000; ++i) {
                 const std::uint32_t index = 0x10000000u + i * 4099u;
                 out += "r";
                 for (int k = 0; k < 4; ++k) out += static_cast<char>(index >> 8 * k & 0xff);
               }
               return out + ".";
             }},
        Bomb{"DoublingLists",  // each list holds the one before twice
             [] {
               return kStart + "]q\x01" +
                      repeat(
                          "](h\x01h\x01"
                          "eq\x01",
                          60'000) +
                      ".";
             }},
        Bomb{"SharedArguments",  // one long shape used by many tensors
             [] {
               return kStart + "(" + repeat("K\x01", 50'000) + "tq\x01" +
                      "ctorch._utils\n_rebuild_tensor_v2\nq\x02" + "((X\x07" +
                      std::string(3, '\0') + "storagectorch\nFloatStorage\nX\x01" +
                      std::string(3, '\0') + "0NK\x01tQq\x03" +
                      repeat("h\x02(h\x03K\x01h\x01h\x01tR", 20'000) + ".";
             }},
        Bomb{"OrderedDictsOfOneList",
             [] {
               return kStart + "(" + repeat("NN\x86", 20'000) + "lq\x01" +
                      "ccollections\nOrderedDict\nq\x02" + repeat("h\x02h\x01\x85R", 20'000) + ".";
             }},
        Bomb{"SelfReferringArguments",
             [] {
               return kStart + "\x8fq\x01(ctorch._tensor\n_rebuild_from_type_v2\nNh\x01\x90" +
                      "ctorch._tensor\n_rebuild_from_type_v2\nh\x01R.";
             }},
        Bomb{"Globals", [] { return kStart + repeat("ca\nb\n", 100'000) + "."; }},
        Bomb{"LongText",
             [] { return kStart + "X\xff\xff\xff\x7f" + std::string(1000, 'x') + "."; }},
        Bomb{"LongerText",
             [] {
               return kStart + "\x8d" + std::string(7, '\xff') + "\x7f" + std::string(1000, 'x') +
                      ".";
             }}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace dpa4::io
