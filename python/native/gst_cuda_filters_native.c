/* What gst_cuda_filters does for each frame, without ctypes: calls of C functions by their address, and
 * DLPack's capsules. Optional: the package does the same without it, only slower.
 *
 * Neither GStreamer nor CUDA is needed to build it: addresses come from the package. It keeps to
 * the stable ABI of Python 3.9, so that one build is for all versions from then on.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Functions */

#define MOST_ARGUMENTS 4

typedef uintptr_t Word;

typedef struct {
  PyObject_HEAD
  Word address;
  int arguments;
  int is_pointer;  /* else an int */
  int waits;       /* other threads run Python meanwhile */
} Function;

/* Integers, None for a null pointer, and bytes, whose address is taken. */
static int to_word(PyObject* value, Word* word) {
  if (value == Py_None) {
    *word = 0;
  } else if (PyBytes_Check(value)) {
    *word = (Word)PyBytes_AsString(value);
  } else {
    *word = (Word)PyLong_AsUnsignedLongLongMask(value);
    if (*word == (Word)-1 && PyErr_Occurred()) return 0;
  }
  return 1;
}

/* All arguments are integers or pointers, which the ABIs of 64-bit Linux pass as words. */
static Word call_words(Word address, int n, const Word* a) {
  switch (n) {
    case 0: return ((Word(*)(void))address)();
    case 1: return ((Word(*)(Word))address)(a[0]);
    case 2: return ((Word(*)(Word, Word))address)(a[0], a[1]);
    case 3: return ((Word(*)(Word, Word, Word))address)(a[0], a[1], a[2]);
    default: return ((Word(*)(Word, Word, Word, Word))address)(a[0], a[1], a[2], a[3]);
  }
}

static PyObject* function_call(PyObject* object, PyObject* args, PyObject* keywords) {
  Function* self = (Function*)object;
  Word words[MOST_ARGUMENTS], result;
  if (PyTuple_Size(args) != self->arguments || keywords) {
    PyErr_Format(PyExc_TypeError, "must have %d arguments", self->arguments);
    return NULL;
  }
  for (int i = 0; i < self->arguments; i++)
    if (!to_word(PyTuple_GetItem(args, i), &words[i])) return NULL;
  if (self->waits) {
    Py_BEGIN_ALLOW_THREADS
    result = call_words(self->address, self->arguments, words);
    Py_END_ALLOW_THREADS
  } else {
    result = call_words(self->address, self->arguments, words);
  }
  if (!self->is_pointer) return PyLong_FromLong((int)result);
  if (!result) Py_RETURN_NONE;
  return PyLong_FromUnsignedLongLong(result);
}

static PyObject* function_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  static char* names[] = {"address", "arguments", "is_pointer", "waits", NULL};
  unsigned long long address;
  int arguments, is_pointer, waits;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "Kipp", names, &address, &arguments, &is_pointer,
                                   &waits))
    return NULL;
  if (!address || arguments < 0 || arguments > MOST_ARGUMENTS) {
    PyErr_Format(PyExc_ValueError, "%d arguments: must be 0 to %d", arguments, MOST_ARGUMENTS);
    return NULL;
  }
  allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Function* self = (Function*)alloc(type, 0);
  if (!self) return NULL;
  self->address = (Word)address;
  self->arguments = arguments;
  self->is_pointer = is_pointer;
  self->waits = waits;
  return (PyObject*)self;
}

static void function_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

static PyType_Slot function_slots[] = {
    {Py_tp_doc, (void*)"A C function of integers and pointers."},
    {Py_tp_new, (void*)function_new},
    {Py_tp_dealloc, (void*)function_dealloc},
    {Py_tp_call, (void*)function_call},
    {0, NULL},
};
static PyType_Spec function_spec = {
    "gst_cuda_filters_native.Function", sizeof(Function), 0, Py_TPFLAGS_DEFAULT, function_slots};

/* DLPack: the structures that consumers of version 1.0 and of earlier ones read. */

typedef struct {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} Tensor;

typedef struct Unversioned {
  Tensor tensor;
  void* manager;
  void (*deleter)(struct Unversioned*);
} Unversioned;

typedef struct Versioned {
  uint32_t major, minor;
  void* manager;
  void (*deleter)(struct Versioned*);
  uint64_t flags;
  Tensor tensor;
} Versioned;

/* What an array keeps alive goes with the consumer's last view, in whatever thread that is. At the
 * end of the process it stays. */
static int ended = 0;

static void drop_owner(void* owner) {
  if (ended) return;
  PyGILState_STATE state = PyGILState_Ensure();
  Py_DECREF((PyObject*)owner);
  PyGILState_Release(state);
}

static void delete_unversioned(Unversioned* self) {
  drop_owner(self->manager);
  free(self);
}

static void delete_versioned(Versioned* self) {
  drop_owner(self->manager);
  free(self);
}

/* A capsule that was consumed has another name. */
static void drop_capsule(PyObject* capsule) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  if (PyCapsule_IsValid(capsule, "dltensor"))
    delete_unversioned((Unversioned*)PyCapsule_GetPointer(capsule, "dltensor"));
  else if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
    delete_versioned((Versioned*)PyCapsule_GetPointer(capsule, "dltensor_versioned"));
  PyErr_Restore(type, value, traceback);
}

static PyObject* export_array(PyObject* module, PyObject* args) {
  PyObject* owner;
  unsigned long long pointer;
  const char* extents; /* int64: the shape, then the strides in elements */
  Py_ssize_t bytes;
  int device_type, device_id, code, bits, readonly, versioned;
  (void)module;
  if (!PyArg_ParseTuple(args, "OKy#(ii)iipp", &owner, &pointer, &extents, &bytes, &device_type,
                        &device_id, &code, &bits, &readonly, &versioned))
    return NULL;
  const size_t head = versioned ? sizeof(Versioned) : sizeof(Unversioned);
  char* memory = (char*)calloc(1, head + (size_t)bytes);
  if (!memory) return PyErr_NoMemory();
  Tensor* tensor;
  if (versioned) {
    Versioned* v = (Versioned*)memory;
    v->major = 1;
    v->manager = owner;
    v->deleter = delete_versioned;
    v->flags = readonly ? 1 : 0;
    tensor = &v->tensor;
  } else {
    Unversioned* u = (Unversioned*)memory;
    u->manager = owner;
    u->deleter = delete_unversioned;
    tensor = &u->tensor;
  }
  memcpy(memory + head, extents, (size_t)bytes);
  tensor->data = (void*)(Word)pointer;
  tensor->device_type = device_type;
  tensor->device_id = device_id;
  tensor->ndim = (int32_t)(bytes / (Py_ssize_t)(2 * sizeof(int64_t)));
  tensor->code = (uint8_t)code;
  tensor->bits = (uint8_t)bits;
  tensor->lanes = 1;
  tensor->shape = (int64_t*)(memory + head);
  tensor->strides = tensor->shape + tensor->ndim;
  PyObject* capsule =
      PyCapsule_New(memory, versioned ? "dltensor_versioned" : "dltensor", drop_capsule);
  if (!capsule) {
    free(memory);
    return NULL;
  }
  Py_INCREF(owner);
  return capsule;
}

static PyObject* end(PyObject* module, PyObject* unused) {
  (void)module, (void)unused;
  ended = 1;
  Py_RETURN_NONE;
}

/* A word of memory, such as a field of a structure. */
static PyObject* word_at(PyObject* module, PyObject* address) {
  (void)module;
  Word at;
  if (!to_word(address, &at)) return NULL;
  Word value;
  memcpy(&value, (const void*)at, sizeof value);
  return PyLong_FromUnsignedLongLong(value);
}

static PyObject* bytes_at(PyObject* module, PyObject* args) {
  unsigned long long address;
  Py_ssize_t size;
  (void)module;
  if (!PyArg_ParseTuple(args, "Kn", &address, &size)) return NULL;
  return PyBytes_FromStringAndSize((const char*)(Word)address, size);
}

static PyMethodDef methods[] = {
    {"export", export_array, METH_VARARGS,
     "export(owner, pointer, extents, device, code, bits, readonly, versioned): a capsule of DLPack "
     "that keeps owner alive."},
    {"end", end, METH_NOARGS, "From now on, nothing that was exported lets go of its owner."},
    {"bytes_at", bytes_at, METH_VARARGS, "bytes_at(address, size): the bytes at an address."},
    {"word_at", word_at, METH_O, "The word at an address."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "gst_cuda_filters_native", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_gst_cuda_filters_native(void) {
  PyObject* module = PyModule_Create(&definition);
  if (!module) return NULL;
  PyObject* type = PyType_FromSpec(&function_spec);
  if (!type || PyModule_AddObject(module, "Function", type) < 0) {
    Py_XDECREF(type);
    Py_DECREF(module);
    return NULL;
  }
  return module;
}
