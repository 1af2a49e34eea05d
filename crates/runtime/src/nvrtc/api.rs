//! The functions of NVRTC that are used, by name in its library.
#![expect(unsafe_code, reason = "a C library")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::Path;
use std::ptr;

use libloading::Library;
use rowloom_codegen::Arch;

use super::ImageFormat;
use crate::error::Error;

/// `nvrtcResult`; 0 is success.
type Code = c_int;
/// `nvrtcProgram`.
type Program = *mut std::ffi::c_void;

/// `NVRTC_ERROR_COMPILATION`: the source is at fault.
const COMPILATION: Code = 6;

/// The functions; they stay valid as long as the library, which lives beside them.
pub(super) struct Api {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code,
    error_string: unsafe extern "C" fn(Code) -> *const c_char,
    arch_count: unsafe extern "C" fn(*mut c_int) -> Code,
    archs: unsafe extern "C" fn(*mut c_int) -> Code,
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Code,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Code,
    destroy: unsafe extern "C" fn(*mut Program) -> Code,
    log: Text,
    cubin: Text,
    ptx: Text,
    _library: Library,
}

/// A pair of functions: the size of a result, and the result.
struct Text {
    name: &'static str,
    size: unsafe extern "C" fn(Program, *mut usize) -> Code,
    get: unsafe extern "C" fn(Program, *mut c_char) -> Code,
}

impl Api {
    /// Loads a library and looks up every function. Says why it is no NVRTC.
    pub(super) fn load(path: &Path) -> Result<Api, String> {
        // SAFETY: the path is an NVRTC that the user named or installed; its initialisers are trusted as it is.
        let library = unsafe { Library::new(path) }.map_err(|error| error.to_string())?;
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the field that this fills has the type that NVRTC documents for the name.
                *unsafe { library.get($name.as_bytes()) }.map_err(|_| format!("it has no {}", $name))?
            };
        }
        macro_rules! text {
            ($name:literal, $size:literal) => {
                Text { name: $name, size: function!($size), get: function!($name) }
            };
        }
        Ok(Api {
            version: function!("nvrtcVersion"),
            error_string: function!("nvrtcGetErrorString"),
            arch_count: function!("nvrtcGetNumSupportedArchs"),
            archs: function!("nvrtcGetSupportedArchs"),
            create: function!("nvrtcCreateProgram"),
            compile: function!("nvrtcCompileProgram"),
            destroy: function!("nvrtcDestroyProgram"),
            log: text!("nvrtcGetProgramLog", "nvrtcGetProgramLogSize"),
            cubin: text!("nvrtcGetCUBIN", "nvrtcGetCUBINSize"),
            ptx: text!("nvrtcGetPTX", "nvrtcGetPTXSize"),
            _library: library,
        })
    }

    /// Major and minor version.
    pub(super) fn version(&self) -> Result<(u32, u32), String> {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both pointers are to integers.
        match unsafe { (self.version)(&mut major, &mut minor) } {
            0 => Ok((major as u32, minor as u32)),
            code => Err(self.message(code)),
        }
    }

    /// Where its code lies.
    pub(super) fn address(&self) -> usize {
        self.version as usize
    }

    /// The architectures it knows, ascending.
    pub(super) fn architectures(&self) -> Result<Vec<Arch>, String> {
        let checked = |code| if code == 0 { Ok(()) } else { Err(self.message(code)) };
        let mut count = 0;
        // SAFETY: the pointer is to an integer.
        checked(unsafe { (self.arch_count)(&mut count) })?;
        let mut archs: Vec<c_int> = vec![0; count as usize];
        // SAFETY: the array has room for as many as NVRTC has just said.
        checked(unsafe { (self.archs)(archs.as_mut_ptr()) })?;
        archs.sort_unstable();
        Ok(archs.into_iter().map(|number| Arch(number as u32)).collect())
    }

    /// The machine code of a text and NVRTC's log.
    pub(super) fn compile(
        &self,
        text: &str,
        name: &str,
        options: &[String],
        format: ImageFormat,
    ) -> Result<(Vec<u8>, String), Error> {
        let c_string = |text: &str| {
            let message = format!("{name}: a text with a NUL in it");
            CString::new(text).map_err(|_| Error::Nvrtc { call: "nvrtcCreateProgram", message })
        };
        let (text, c_name) = (c_string(text)?, c_string(name)?);
        let options = options.iter().map(|option| c_string(option)).collect::<Result<Vec<CString>, Error>>()?;
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let mut program = Owned { api: self, program: ptr::null_mut() };
        // SAFETY: both texts end in NUL and live through the call; there are no headers.
        let code = unsafe {
            let (text, name) = (text.as_ptr(), c_name.as_ptr());
            (self.create)(&mut program.program, text, name, 0, ptr::null(), ptr::null())
        };
        self.check("nvrtcCreateProgram", code)?;
        // SAFETY: the program exists; the options are as many strings as said and live through the call.
        let code = unsafe { (self.compile)(program.program, options.len() as c_int, options.as_ptr()) };
        let log = String::from_utf8_lossy(&self.text(&self.log, &program)?).trim_end_matches(['\0', '\n']).to_owned();
        if code == COMPILATION || (code != 0 && !log.is_empty()) {
            return Err(Error::Compile { compiler: "NVRTC".to_owned(), source_name: name.to_owned(), log });
        }
        self.check("nvrtcCompileProgram", code)?;
        let image = match format {
            ImageFormat::Cubin => self.text(&self.cubin, &program)?,
            ImageFormat::Ptx => self.text(&self.ptx, &program)?,
        };
        Ok((image, log))
    }

    fn text(&self, text: &Text, program: &Owned<'_>) -> Result<Vec<u8>, Error> {
        let mut size = 0;
        // SAFETY: the program exists and the pointer is to a size.
        self.check(text.name, unsafe { (text.size)(program.program, &mut size) })?;
        let mut bytes = vec![0_u8; size];
        // SAFETY: the program exists and the buffer has the size that NVRTC has just said.
        self.check(text.name, unsafe { (text.get)(program.program, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }

    fn check(&self, call: &'static str, code: Code) -> Result<(), Error> {
        if code == 0 { Ok(()) } else { Err(Error::Nvrtc { call, message: self.message(code) }) }
    }

    fn message(&self, code: Code) -> String {
        // SAFETY: NVRTC gives a static string for every code, also for unknown ones.
        unsafe { CStr::from_ptr((self.error_string)(code)) }.to_string_lossy().into_owned()
    }
}

/// A program that is destroyed when it is dropped.
struct Owned<'a> {
    api: &'a Api,
    program: Program,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        if !self.program.is_null() {
            // SAFETY: the program was made by this library and nothing else holds it.
            unsafe { (self.api.destroy)(&mut self.program) };
        }
    }
}
