"""Ways in which users' code may read a number, and what changes it."""

#: For each way what stands before, how the number is read, and what changes it.
WAYS = {
    "global": ("k = 1.0", "k", "k = new"),
    "global by name": ("k = 1.0", "globals()['k']", "k = new"),
    "global by eval": ("k = 1.0", "eval('k')", "k = new"),
    "builtin": ("builtins.way_k = 1.0", "way_k", "builtins.way_k = new"),
    "function": ("def get(): return 1.0", "get()", "get = lambda: new"),
    "function that calls one": (
        "def inner(): return 1.0\ndef get(): return inner()",
        "get()",
        "inner = lambda: new",
    ),
    "code of a function": (
        "def get(): return k1\ndef other(): return k2\nk1 = 1.0",
        "get()",
        "k1 = k2 = new; get.__code__ = other.__code__",
    ),
    "default": ("def get(k=1.0): return k", "get()", "get.__defaults__ = (new,)"),
    "keyword default": (
        "def get(*, k=1.0): return k",
        "get()",
        "get.__kwdefaults__['k'] = new",
    ),
    "attribute of a function": (
        "def get(): return get.k\nget.k = 1.0",
        "get()",
        "get.k = new",
    ),
    "closure": (
        "def make():\n  k = 1.0\n  def get(): return k\n  def put(new):\n"
        "    nonlocal k\n    k = new\n  return get, put\nget, put = make()",
        "get()",
        "put(new)",
    ),
    "generator": (
        "def forever():\n  while True: yield k\nk, numbers = 1.0, forever()",
        "next(numbers)",
        "k = new",
    ),
    "partial": (
        "import functools, operator\nget = functools.partial(operator.mul, 1.0)",
        "get(1.0)",
        "get = functools.partial(operator.mul, new)",
    ),
    "attrgetter": (
        "import operator\nx = types.SimpleNamespace(k=1.0)\n"
        "get = operator.attrgetter('k')",
        "get(x)",
        "x.k = new",
    ),
    "module": ("m = types.ModuleType('m')\nm.k = 1.0", "m.k", "m.k = new"),
    "module by a local name": (
        "m = types.ModuleType('m')\nm.k = 1.0\ndef get():\n  c = m\n  return c.k",
        "get()",
        "m.k = new",
    ),
    "module by getattr": (
        "m = types.ModuleType('m')\nm.k = 1.0",
        "getattr(m, 'k')",
        "m.k = new",
    ),
    "module by vars": (
        "m = types.ModuleType('m')\nm.k = 1.0",
        "vars(m)['k']",
        "m.k = new",
    ),
    "import where it runs": (
        "def get():\n  import way_module as c\n  return c.k\nway_module.k = 1.0",
        "get()",
        "way_module.k = new",
    ),
    "import of a name where it runs": (
        "def get():\n  from way_module import k\n  return k\nway_module.k = 1.0",
        "get()",
        "way_module.k = new",
    ),
    "import in the enclosing function": (
        "def make():\n  import way_module as c\n  return lambda: c.k\n"
        "way_module.k = 1.0\nget = make()",
        "get()",
        "way_module.k = new",
    ),
    "import by a string": (
        "import importlib\nway_module.k = 1.0",
        "importlib.import_module('way_module').k",
        "way_module.k = new",
    ),
    "module that is imported anew": (
        "way_module.k = 1.0",
        "sys.modules['way_module'].k",
        "sys.modules['way_module'] = types.SimpleNamespace(k=new)",
    ),
    "module with the name of a standard one": (
        "profile = types.ModuleType('profile')\n"
        "exec('k = 1.0\\ndef get(): return k', vars(profile))",
        "profile.get()",
        "profile.k = new",
    ),
    "attribute of a standard module": (
        "string.way_k = 1.0",
        "string.way_k",
        "string.way_k = new",
    ),
    "attribute of an installed module": (
        "np.way_k = 1.0",
        "np.way_k",
        "np.way_k = new",
    ),
    "list": ("ks = [1.0]", "ks[0]", "ks[0] = new"),
    "list that grows": ("ks = [1.0]", "ks[-1]", "ks.append(new)"),
    "dict": ("ks = {'a': 1.0}", "ks['a']", "ks['a'] = new"),
    "order of a dict": (
        "ks = {'a': 1.0, 'b': 2.0}",
        "next(iter(ks.values()))",
        "ks = dict(sorted(ks.items(), key=lambda item: item[1] != new))",
    ),
    "set": ("ks = {1.0}", "max(ks)", "ks.clear(); ks.add(new)"),
    "deque": ("ks = collections.deque([1.0])", "ks[0]", "ks[0] = new"),
    "default dict": (
        "ks = collections.defaultdict(lambda: k)\nk = 1.0",
        "ks.default_factory()",
        "k = new",
    ),
    "chain of dicts": (
        "below = {'k': 1.0}\nks = collections.ChainMap({}, below)",
        "ks['k']",
        "below['k'] = new",
    ),
    "list in a tuple": ("ks = (0, [1.0])", "ks[1][0]", "ks[1][0] = new"),
    "entry of an array": ("ks = np.ones(3)", "ks[1]", "ks[1] = new"),
    "whole array": ("ks = np.ones(3)", "ks.mean()", "ks[:] = new"),
    "view of an array": ("ks = np.ones(3)\nk = ks[1:]", "k[0]", "ks[1] = new"),
    "array of JAX": ("k = jnp.ones(())", "k", "k = jnp.asarray(new)"),
    "array.array": (
        "import array\nks = array.array('d', [1.0])",
        "ks[0]",
        "ks[0] = new",
    ),
    "ctypes": (
        "import ctypes\nk = ctypes.c_double(1.0)",
        "k.value",
        "k.value = new",
    ),
    "namespace": ("x = types.SimpleNamespace(k=1.0)", "x.k", "x.k = new"),
    "object": ("class X: pass\nx = X()\nx.k = 1.0", "x.k", "x.k = new"),
    "object with slots": (
        "class X: __slots__ = 'k'\nx = X()\nx.k = 1.0",
        "x.k",
        "x.k = new",
    ),
    "dict of an object": (
        "class X: pass\nx = X()\nx.k = 1.0",
        "x.__dict__['k']",
        "x.k = new",
    ),
    "class": ("class X: k = 1.0", "X.k", "X.k = new"),
    "class of an object": ("class X: k = 1.0\nx = X()", "x.k", "X.k = new"),
    "base class": ("class B: k = 1.0\nclass X(B): pass\nx = X()", "x.k", "B.k = new"),
    "metaclass": (
        "class M(type): k = 1.0\nclass X(metaclass=M): pass",
        "X.k",
        "M.k = new",
    ),
    "private name of an abstract class": (
        "import abc\nclass X(abc.ABC): _abc_k = 1.0",
        "X._abc_k",
        "X._abc_k = new",
    ),
    "method": (
        "class X:\n  def get(self): return 1.0\nx = X()",
        "x.get()",
        "X.get = lambda self: new",
    ),
    "method of one object": (
        "class X:\n  def get(self): return 1.0\nx = X()",
        "x.get()",
        "x.get = lambda: new",
    ),
    "class method": (
        "class X:\n  k = 1.0\n  @classmethod\n  def get(cls): return cls.k",
        "X.get()",
        "X.k = new",
    ),
    "static method": (
        "class X:\n  @staticmethod\n  def get(): return 1.0",
        "X.get()",
        "X.get = staticmethod(lambda: new)",
    ),
    "property": (
        "class X:\n  @property\n  def k(self): return X.hidden\n"
        "X.hidden = 1.0\nx = X()",
        "x.k",
        "X.hidden = new",
    ),
    "descriptor": (
        "class D:\n  k = 1.0\n  def __get__(self, *_): return D.k\n"
        "class X: k = D()\nx = X()",
        "x.k",
        "D.k = new",
    ),
    "attributes on demand": (
        "class X:\n  def __getattr__(self, name): return k\nk, x = 1.0, X()",
        "x.anything",
        "k = new",
    ),
    "items on demand": (
        "class X:\n  def __getitem__(self, i): return k\nk, x = 1.0, X()",
        "x[0]",
        "k = new",
    ),
    "object that is called": (
        "class X:\n  def __call__(self): return self.k\nx = X()\nx.k = 1.0",
        "x()",
        "x.k = new",
    ),
    "data class": (
        "import dataclasses\n@dataclasses.dataclass\nclass X:\n  k: float\nx = X(1.0)",
        "x.k",
        "x.k = new",
    ),
    "attribute of a data class that is no field": (
        "import dataclasses\n@dataclasses.dataclass\nclass X:\n  a: float\n"
        "x = X(0.0)\nx.k = 1.0",
        "x.k",
        "x.k = new",
    ),
    "attribute of an enumeration": (
        "import enum\nclass X(enum.Enum): A = 1\nX.A.k = 1.0",
        "X.A.k",
        "X.A.k = new",
    ),
    "object with an equality of its own": (
        "class X:\n  def __eq__(self, other): return True\n"
        "  def __hash__(self): return 0\nx = X()\nx.k = 1.0",
        "x.k",
        "x = X(); x.k = new",
    ),
    "weak reference": (
        "import weakref\nclass X: pass\nx = X()\nx.k, ref = 1.0, weakref.ref(x)",
        "ref().k",
        "x.k = new",
    ),
    "environment": (
        "os.environ['WAY_K'] = '1.0'",
        "float(os.environ['WAY_K'])",
        "os.environ['WAY_K'] = str(new)",
    ),
    "file": (
        "path.write_text('1.0')",
        "float(path.read_text())",
        "path.write_text(str(new))",
    ),
    "context variable": (
        "k = contextvars.ContextVar('k', default=1.0)",
        "k.get()",
        "k.set(new)",
    ),
    "local to a thread": ("x = threading.local()\nx.k = 1.0", "x.k", "x.k = new"),
    "branch": ("k = 1.0", "2.0 if k > 1.5 else 1.0", "k = new"),
    "number of times": ("k = 1.0", "sum(1.0 for _ in range(int(k)))", "k = new"),
}

#: Ways of classes alone: what stands in the class, how it is read, what changes it.
WAYS_OF_CLASSES = {
    "class attribute": ("k = 1.0", "self.k", "Model.k = new"),
    "class attribute by type": ("k = 1.0", "type(self).k", "Model.k = new"),
    "class dict": ("ks = {'a': 1.0}", "self.ks['a']", "Model.ks['a'] = new"),
    "own method": (
        "def get(self): return 1.0",
        "self.get()",
        "Model.get = lambda self: new",
    ),
    "own property": (
        "@property\n  def k(self): return hidden",
        "self.k",
        "hidden = new",
    ),
    "own static method": (
        "@staticmethod\n  def get(): return hidden",
        "self.get()",
        "hidden = new",
    ),
    "method of a parent": ("pass", "self.parents()", "Parent.parents = lambda s: new"),
    "method of super": ("pass", "super().parents()", "Parent.parents = lambda s: new"),
    "list in a static field": (
        "fixed: list = eqx.field(static=True, default_factory=lambda: [1.0])",
        "self.fixed[0]",
        "model.fixed[0] = new",
    ),
    "object in a field": (
        "held: object = eqx.field(default_factory=lambda: threading.local())",
        "getattr(self.held, 'k', 1.0)",
        "model.held.k = new",
    ),
    "function in a field": (
        "get: object = eqx.field(default_factory=lambda: lambda: hidden)",
        "self.get()",
        "hidden = new",
    ),
    "function in a static field": (
        "get: object = eqx.field(static=True, default_factory=lambda: lambda: hidden)",
        "self.get()",
        "hidden = new",
    ),
    "array in a dict in a field": (
        "ks: dict = eqx.field(default_factory=lambda: {'a': np.ones(2)})",
        "self.ks['a'][1]",
        "model.ks['a'][1] = new",
    ),
    "function in a list in a field": (
        "gets: list = eqx.field(default_factory=lambda: [lambda: hidden])",
        "self.gets[0]()",
        "hidden = new",
    ),
}
