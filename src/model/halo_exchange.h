// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

#include <cstdint>

namespace dpa4::model {

/// A table of node rows that takes part in an exchange: `n_nodes` rows of `width` numbers each.
/// Row order is that of EdgeList: owned nodes first, then copies of other ranks' atoms.
struct NodeRows {
  enum class Type { kFloat32, kFloat64 };
  enum class Space { kHost, kDevice };

  void* data = nullptr;
  int n_nodes = 0;
  int width = 0;
  Type type = Type::kFloat64;
  Space space = Space::kHost;
  void* stream = nullptr;  // kDevice: the stream on which the rows are produced and consumed
};

/// How a model talks to the other ranks. Every call is collective: a rank without atoms takes part.
class HaloExchange {
 public:
  virtual ~HaloExchange() = default;

  /// False when no rank has copies of another rank's atoms: then no exchange is needed.
  virtual bool active() const = 0;

  /// Whether rows in device memory are taken as they are; otherwise they are staged through the
  /// host.
  virtual bool takes_device_rows() const { return false; }

  /// The widest row this exchange can carry; asked once, before the first exchange.
  virtual void reserve(int max_width) = 0;

  /// Overwrites the rows [n_owned, n_nodes) with the rows of their owners.
  virtual void forward(NodeRows rows) = 0;

  /// The transpose: adds the rows [n_owned, n_nodes) to their owners' rows, then zeroes them.
  virtual void reverse(NodeRows rows) = 0;

  /// True if the condition holds on any rank.
  virtual bool any(bool condition) = 0;
};

/// One rank: nothing to exchange.
class NoHalo final : public HaloExchange {
 public:
  bool active() const override { return false; }
  void reserve(int) override {}
  void forward(NodeRows) override {}
  void reverse(NodeRows) override {}
  bool any(bool condition) override { return condition; }
};

}  // namespace dpa4::model
