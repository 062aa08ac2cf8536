// Defines properties as rows of a table. A row has the property's name, nick, field, limits,
// description and flags; the default is the field's own.
//
// An element keeps its settings in a struct in its instance. The struct is a params struct of the
// filter library or derives from one. class_init lists all properties:
//
//   static Settings* settings_of(GObject* object) { return &GST_MY_FILTER(object)->settings; }
//   ...
//   gstvf::install_properties<Settings>(object_class, settings_of, {
//       {"sigma", "Sigma", &Settings::sigma, Settings::kSigma, "Standard deviation, in pixels"},
//       {"border", "Border", &Settings::border, border_type, "Pixels outside the frame"},
//   });
//
// This sets the class's set_property and get_property. Setting a property locks the object. It
// refuses values that the limits or the row's `refusal` do not allow, and any change of a kReady
// property after the start: the former value stays, and a warning message says so (errors.h). If
// the value of a property changes that can change while playing, the plan is made again. If no plan
// can be made with it, the base class puts the former value back (livesettings.h). The element
// reads its settings under GST_OBJECT_LOCK.
//
// install_properties may be called several times for a class. init must start the settings as a
// copy of Settings().
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "filters/limits.h"
#include "gst/base/gstcudavideofilter.h"
#include "gst/base/numbers.h"

namespace gstvf {

// Holds an object's lock for a scope.
class ObjectLock : vf::NoCopy {
 public:
  explicit ObjectLock(gpointer object) : object_(object) { GST_OBJECT_LOCK(object_); }
  ~ObjectLock() { GST_OBJECT_UNLOCK(object_); }

 private:
  const gpointer object_;
};

// Calls a function under an object's lock, and returns what it returns.
template <class F>
auto under_lock(gpointer object, const F& f) {
  const ObjectLock lock(object);
  return f();
}
// Copies a field that an object keeps under its lock.
template <class T>
T locked(gpointer object, const T& field) {
  const ObjectLock lock(object);
  return field;
}

// The property may change at any time, also by a controller.
constexpr auto kControllable = GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                           GST_PARAM_CONTROLLABLE | GST_PARAM_MUTABLE_PLAYING);
constexpr auto kPlaying =
    GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING);
// The element reads the property when it starts.
constexpr auto kReady =
    GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY);

// Holds one value of an enum type: value, description, nick.
struct EnumRow {
  template <class E>
  EnumRow(E v, const char* d, const char* n) : value(int(v)), description(d), nick(n) {}
  int value;
  const char *description, *nick;
};
// Returns the enum type of this name. The first call registers it and documents it as part of the
// plugin. It keeps the pointers to all strings.
GType enum_type(const char* name, const std::vector<EnumRow>& rows);
GType flags_type(const char* name, const std::vector<EnumRow>& rows);

// Limits of a colour as 0xAARRGGBB. A colour is a plain guint, because gst-inspect-1.0 shows no
// limits and default of a derived type, and Rust's bindings refuse a u32 for it.
constexpr vf::Limits<guint> kColor{0, G_MAXUINT};

struct RowOptions {
  // Says why a value that is within the limits cannot be used now; empty if it can. The text
  // follows "NAME=VALUE " and names after "must be" what is allowed. Any thread may call it,
  // without locks.
  using Refusal = std::string (*)(GObject* object, const GValue* value);
  // Is called after a change and before the plan is made again, without locks.
  using Changed = void (*)(GObject* object);

  RowOptions(GParamFlags f = kControllable, Refusal r = nullptr, Changed c = nullptr)
      : flags(f), refusal(r), changed(c) {}
  GParamFlags flags;
  Refusal refusal;
  Changed changed;
};

// Binds a row to the settings of a class.
struct Property {
  RowOptions options;
  std::function<std::string(const GValue*)> check;
  std::function<bool(GObject*, const GValue*)> set;
  std::function<void(GObject*, GValue*)> get;
};
// Installs a property, and owns `property` from now on.
void install_property(GObjectClass* klass, GParamSpec* spec, Property* property);

// Initialises GstPreset, so that a preset keeps only properties that change how pictures look.
// G_IMPLEMENT_INTERFACE takes it.
void init_presets(gpointer iface, gpointer data);

// The base class calls these. put_back() sets a property to its former value, under the object's
// lock, and returns the value it had. tell_element() calls the row's `changed`, without the lock.
void put_back(GObject* object, GParamSpec* spec, const GValue* former, GValue* value);
void tell_element(GObject* object, GParamSpec* spec);

// These convert between values and fields.
template <class T>
void read(const GValue* v, T* out) {
  if constexpr (std::is_same_v<T, int>)
    *out = g_value_get_int(v);
  else if constexpr (std::is_same_v<T, double>)
    *out = g_value_get_double(v);
  else if constexpr (std::is_same_v<T, bool>)
    *out = g_value_get_boolean(v);
  else if constexpr (std::is_same_v<T, guint>)
    *out = G_VALUE_HOLDS_FLAGS(v) ? g_value_get_flags(v) : g_value_get_uint(v);
  else if constexpr (std::is_same_v<T, Numbers>)
    *out = parse_numbers(g_value_get_string(v));
  else if constexpr (std::is_same_v<T, std::string>)
    *out = g_value_get_string(v) ? g_value_get_string(v) : "";
  else
    *out = T(g_value_get_enum(v));
}
template <class T>
void write(const T& in, GValue* v) {
  if constexpr (std::is_same_v<T, int>)
    g_value_set_int(v, in);
  else if constexpr (std::is_same_v<T, double>)
    g_value_set_double(v, in);
  else if constexpr (std::is_same_v<T, bool>)
    g_value_set_boolean(v, in);
  else if constexpr (std::is_same_v<T, guint>)
    G_VALUE_HOLDS_FLAGS(v) ? g_value_set_flags(v, in) : g_value_set_uint(v, in);
  else if constexpr (std::is_same_v<T, Numbers>)
    g_value_set_string(v, print_numbers(in).c_str());
  else if constexpr (std::is_same_v<T, std::string>)
    g_value_set_string(v, in.c_str());
  else
    g_value_set_enum(v, int(in));
}

GParamSpec* number_spec(const char* name, const char* nick, const char* blurb, GParamFlags flags,
                        const vf::Limits<int>& limits, int value);
GParamSpec* number_spec(const char* name, const char* nick, const char* blurb, GParamFlags flags,
                        const vf::Limits<guint>& limits, guint value);
GParamSpec* number_spec(const char* name, const char* nick, const char* blurb, GParamFlags flags,
                        const vf::Limits<double>& limits, double value);
// Makes the specification of an enum or of flags, as the type says.
GParamSpec* choice_spec(const char* name, const char* nick, const char* blurb, GParamFlags flags,
                        GType type, guint value);
// Make refusals, such as "is not allowed: it must be 0 or odd, 0 to 511".
std::string number_refusal(const char* must_be, double min, double max);
std::string numbers_refusal(const Numbers& numbers, const vf::Limits<double>& limits);

template <class Settings>
struct Row {
  RowOptions options;
  GParamSpec* spec;
  // Says why a value is outside of the limits, as RowOptions::refusal does.
  std::function<std::string(const GValue*)> check;
  // Sets the field, and tells whether it changed.
  std::function<bool(Settings&, const GValue*)> set;
  std::function<void(const Settings&, GValue*)> get;

  // Makes the row of a number: int, guint or double.
  template <class C, class T>
  Row(const char* name, const char* nick, T C::*field, const vf::Limits<T>& limits,
      const char* blurb, const RowOptions& options_ = {})
      : Row(number_spec(name, nick, blurb, options_.flags, limits, Settings{}.*field), field,
            options_) {
    check = [limits](const GValue* v) {
      T now{};
      read(v, &now);
      return limits.allow(now)
                 ? std::string()
                 : number_refusal(limits.must_be, double(limits.min), double(limits.max));
    };
  }
  // Makes the row of one number or three.
  template <class C>
  Row(const char* name, const char* nick, Numbers C::*field, const vf::Limits<double>& limits,
      const char* blurb, const RowOptions& options_ = {})
      : Row(g_param_spec_string(name, nick, blurb, print_numbers(Settings{}.*field).c_str(),
                                options_.flags),
            field, options_) {
    check = [limits](const GValue* v) {
      Numbers now;
      read(v, &now);
      return numbers_refusal(now, limits);
    };
  }
  template <class C>
  Row(const char* name, const char* nick, bool C::*field, const char* blurb,
      const RowOptions& options_ = {})
      : Row(g_param_spec_boolean(name, nick, blurb, Settings{}.*field, options_.flags), field,
            options_) {}
  template <class C>
  Row(const char* name, const char* nick, std::string C::*field, const char* blurb,
      const RowOptions& options_ = {})
      : Row(g_param_spec_string(name, nick, blurb, (Settings{}.*field).c_str(), options_.flags),
            field, options_) {}
  // Makes the row of an enum, or of flags in a guint.
  template <class C, class T>
  Row(const char* name, const char* nick, T C::*field, GType type, const char* blurb,
      const RowOptions& options_ = {})
      : Row(choice_spec(name, nick, blurb, options_.flags, type, guint(Settings{}.*field)), field,
            options_) {}

 private:
  template <class C, class T>
  Row(GParamSpec* spec_, T C::*field, const RowOptions& options_) : options(options_), spec(spec_) {
    set = [field](Settings& s, const GValue* v) {
      T now{};
      read(v, &now);
      const bool changed = s.*field != now;
      s.*field = now;
      return changed;
    };
    get = [field](const Settings& s, GValue* v) { write(s.*field, v); };
  }
};

template <class Settings>
void install_properties(GObjectClass* klass, Settings* (*settings_of)(GObject*),
                        std::initializer_list<Row<Settings>> rows) {
  for (const Row<Settings>& row : rows)
    install_property(
        klass, row.spec,
        new Property{
            row.options, row.check,
            [=, set = row.set](GObject* o, const GValue* v) { return set(*settings_of(o), v); },
            [=, get = row.get](GObject* o, GValue* v) { get(*settings_of(o), v); }});
}

}  // namespace gstvf
